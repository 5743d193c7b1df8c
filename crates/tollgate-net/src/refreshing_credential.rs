//! A credential that is fetched before the first request, and again before it expires: a token, or
//! keys that sign requests.
//!
//! It is fetched in a background task that all callers share. A caller's deadline is short: a fetch
//! that ended with its caller would never finish where it takes longer than that. While the current
//! credential is valid no caller waits, and a failed fetch is retried later. A rejection (an error
//! that is no outage) is kept and returned at once until a later fetch has another result. A caller
//! that reaches its deadline first would report it as a timeout, which is an outage.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tollgate_core::{Clock, Code, Error, Micros, Result};

const SECOND: Micros = 1_000_000;
/// How long before the expiry the next credential is fetched.
const REFRESH_BEFORE: Micros = 60 * SECOND;
/// The pause between two fetches while the current credential is valid.
const REFRESH_PAUSE: Micros = 5 * SECOND;
/// The pause after a rejection.
const REJECTION_PAUSE: Micros = SECOND;
/// How many runtimes may shut down while one caller waits.
const WAITS_MAX: usize = 3;

/// A credential that expires and is fetched again before that.
pub struct RefreshingCredential<T> {
    clock: Arc<dyn Clock>,
    state: Mutex<State<T>>,
}

struct State<T> {
    current: Option<Credential<T>>,
    /// The error of the last fetch, if it was no outage.
    rejection: Option<Error>,
    /// No fetch begins before this instant if there is a credential or a rejection.
    fetch_after: Micros,
    /// No credential is discarded before this instant, unless it was accepted once.
    discard_after: Micros,
    /// The fetch under way.
    fetch: Option<Fetch<T>>,
}

struct Credential<T> {
    value: Arc<T>,
    expires: Micros,
}

/// The result of a fetch, for all callers that wait. Closed without a result if its runtime was
/// shut down.
type Fetch<T> = watch::Receiver<Option<FetchResult<T>>>;
type FetchResult<T> = core::result::Result<Arc<T>, Arc<Error>>;

/// What a caller finds.
enum Lookup<T> {
    Current(Arc<T>),
    Fetch(Fetch<T>),
}

impl<T: Send + Sync + 'static> RefreshingCredential<T> {
    /// No credential is fetched yet. The clock tells when one expires.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        let state =
            State { current: None, rejection: None, fetch_after: 0, discard_after: 0, fetch: None };
        Arc::new(Self { clock, state: Mutex::new(state) })
    }

    /// The current credential. Waits for a fetch if there is no valid one. `fetch` returns the
    /// credential and its expiry, and has to be bounded in time.
    ///
    /// # Errors
    /// Those of `fetch`, marked as not sent. `config_invalid` naming `runtime` outside of a
    /// runtime.
    pub async fn current<F>(self: &Arc<Self>, fetch: impl Fn() -> F) -> Result<Arc<T>>
    where
        F: Future<Output = Result<(T, Micros)>> + Send + 'static,
    {
        for _ in 0..WAITS_MAX {
            let mut pending = match self.find(&fetch)? {
                Lookup::Current(value) => return Ok(value),
                Lookup::Fetch(pending) => pending,
            };
            if let Ok(result) = pending.wait_for(Option::is_some).await
                && let Some(result) = result.as_ref()
            {
                return result.clone().map_err(|error| Error::clone(&error).not_sent());
            }
        }
        let message = "the runtime was shut down while a credential was fetched";
        Err(Error::new(Code::StoreUnavailable, message).not_sent())
    }

    /// Discards a credential that the server did not accept, unless there is a newer one. If
    /// neither it nor the one before it was ever accepted (`was_accepted`), it is kept for a while.
    /// Otherwise every request would fetch, and callers that reach their deadline meanwhile would
    /// not see the rejection.
    pub fn discard(&self, refused: &Arc<T>, was_accepted: bool) {
        let now = self.clock.now();
        let mut state = self.lock();
        let is_current =
            state.current.as_ref().is_some_and(|current| Arc::ptr_eq(&current.value, refused));
        if is_current && (was_accepted || now >= state.discard_after) {
            (state.current, state.rejection) = (None, None);
            state.discard_after = now.saturating_add(REFRESH_PAUSE);
        }
    }

    fn find<F>(self: &Arc<Self>, fetch: &impl Fn() -> F) -> Result<Lookup<T>>
    where
        F: Future<Output = Result<(T, Micros)>> + Send + 'static,
    {
        let mut state = self.lock();
        let now = self.clock.now();
        let may_fetch = now >= state.fetch_after;
        if let Some(current) = &state.current {
            let (value, expires) = (Arc::clone(&current.value), current.expires);
            if may_fetch && now.saturating_add(REFRESH_BEFORE) >= expires {
                self.begin(&mut state, now, fetch)?;
            }
            if !may_fetch || now < expires {
                return Ok(Lookup::Current(value));
            }
        } else if let Some(rejection) = &state.rejection {
            let rejection = rejection.clone().not_sent();
            if may_fetch {
                self.begin(&mut state, now, fetch)?;
            }
            return Err(rejection);
        }
        self.begin(&mut state, now, fetch).map(Lookup::Fetch)
    }

    /// The fetch under way, which is begun if there is none.
    fn begin<F>(
        self: &Arc<Self>,
        state: &mut State<T>,
        now: Micros,
        fetch: &impl Fn() -> F,
    ) -> Result<Fetch<T>>
    where
        F: Future<Output = Result<(T, Micros)>> + Send + 'static,
    {
        if let Some(pending) = &state.fetch
            && pending.has_changed().is_ok()
        {
            return Ok(pending.clone());
        }
        let runtime = Handle::try_current().map_err(|_| {
            Error::config("runtime", "is missing; use the store inside of a tokio runtime")
                .not_sent()
        })?;
        let (sender, pending) = watch::channel(None);
        state.fetch = Some(pending.clone());
        let (credential, fetched) = (Arc::clone(self), fetch());
        drop(runtime.spawn(async move {
            let result = credential.finish(fetched.await, now);
            sender.send_replace(Some(result));
        }));
        Ok(pending)
    }

    /// Stores the result of a fetch that began at `now`.
    fn finish(&self, fetched: Result<(T, Micros)>, now: Micros) -> FetchResult<T> {
        let mut state = self.lock();
        state.fetch = None;
        match fetched {
            Ok((value, expires)) => {
                let value = Arc::new(value);
                state.current = Some(Credential { value: Arc::clone(&value), expires });
                state.rejection = None;
                // A credential that lives for less than the pause is not fetched for every request.
                state.fetch_after = now.saturating_add(REFRESH_PAUSE);
                Ok(value)
            }
            Err(error) => {
                state.current.take_if(|current| now >= current.expires);
                let pause = if state.current.is_some() { REFRESH_PAUSE } else { REJECTION_PAUSE };
                state.fetch_after = now.saturating_add(pause);
                state.rejection = (!error.is_outage()).then(|| error.clone());
                Err(Arc::new(error))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Omits the credential, which is a secret.
impl<T> fmt::Debug for RefreshingCredential<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefreshingCredential").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use core::future::{poll_fn, ready};
    use core::pin::pin;
    use core::task::Poll;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::Semaphore;
    use tollgate_core::ManualClock;

    use super::*;

    const START: Micros = 1_000 * SECOND;

    /// Issues numbers, one per permit, each valid for 100 s.
    struct Issuer {
        clock: ManualClock,
        credential: Arc<RefreshingCredential<u64>>,
        begun: Arc<AtomicU64>,
        permits: Arc<Semaphore>,
    }

    impl Issuer {
        fn new() -> Self {
            let clock = ManualClock::at(START);
            let credential = RefreshingCredential::new(Arc::new(clock.clone()));
            Self { clock, credential, begun: Arc::default(), permits: Arc::new(Semaphore::new(0)) }
        }

        async fn current(&self) -> Result<u64> {
            let fetch = || {
                let number = self.begun.fetch_add(1, SeqCst) + 1;
                let (permits, expires) =
                    (Arc::clone(&self.permits), self.clock.now() + 100 * SECOND);
                async move {
                    permits.acquire().await.unwrap().forget();
                    Ok((number, expires))
                }
            };
            self.credential.current(fetch).await.map(|number| *number)
        }

        /// A caller that is cancelled after one poll.
        async fn cancelled_caller(&self) {
            let mut call = pin!(self.current());
            let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
            assert!(polled.is_pending(), "{polled:?}");
        }

        /// Returns once no fetch is under way.
        async fn fetched(&self) {
            while self.credential.lock().fetch.is_some() {
                tokio::task::yield_now().await;
            }
        }
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn a_fetch_goes_on_after_its_callers_are_cancelled() {
        runtime().block_on(async {
            let issuer = Issuer::new();
            issuer.cancelled_caller().await;
            tokio::task::yield_now().await;
            issuer.cancelled_caller().await;
            issuer.permits.add_permits(1);
            issuer.fetched().await;
            assert_eq!(issuer.current().await.unwrap(), 1);
            assert_eq!(issuer.begun.load(SeqCst), 1, "a second fetch was begun");
        });
    }

    #[test]
    fn no_caller_waits_while_the_current_credential_is_valid() {
        runtime().block_on(async {
            let issuer = Issuer::new();
            issuer.permits.add_permits(1);
            for (second, begun) in [(0, 1), (39, 1), (40, 2), (99, 2)] {
                issuer.clock.set(START + second * SECOND);
                assert_eq!(issuer.current().await.unwrap(), 1);
                assert_eq!(issuer.begun.load(SeqCst), begun, "second {second}");
            }
            issuer.clock.set(START + 100 * SECOND);
            issuer.cancelled_caller().await;
            issuer.permits.add_permits(1);
            assert_eq!(issuer.current().await.unwrap(), 2);
        });
    }

    #[test]
    fn a_rejection_is_returned_at_once_and_an_outage_is_retried() {
        runtime().block_on(async {
            let issuer = Issuer::new();
            let fail = |code| move || ready(Err(Error::new(code, "no")));
            let code = async |code| issuer.credential.current(fail(code)).await.unwrap_err().code();
            assert_eq!(code(Code::StoreUnavailable).await, Code::StoreUnavailable);
            assert_eq!(code(Code::ConfigInvalid).await, Code::ConfigInvalid);
            // The pause after a rejection has not passed.
            assert_eq!(issuer.current().await.unwrap_err().code(), Code::ConfigInvalid);
            assert_eq!(issuer.begun.load(SeqCst), 0);
            issuer.clock.set(START + REJECTION_PAUSE);
            for _ in 0..2 {
                let error = issuer.current().await.unwrap_err();
                assert_eq!((error.code(), error.is_not_sent()), (Code::ConfigInvalid, true));
            }
            issuer.permits.add_permits(1);
            issuer.fetched().await;
            assert_eq!(issuer.current().await.unwrap(), 1);
        });
    }

    #[test]
    fn a_credential_that_is_refused_repeatedly_is_not_fetched_for_every_request() {
        runtime().block_on(async {
            let issuer = Issuer::new();
            issuer.permits.add_permits(10);
            let was_accepted = AtomicBool::new(false);
            let refuse = async || {
                let number = issuer.current().await.unwrap();
                let value =
                    issuer.credential.lock().current.as_ref().map(|one| Arc::clone(&one.value));
                issuer.credential.discard(&value.unwrap(), was_accepted.load(SeqCst));
                number
            };
            assert_eq!([refuse().await, refuse().await, refuse().await], [1, 2, 2]);
            issuer.clock.set(START + REFRESH_PAUSE);
            assert_eq!([refuse().await, refuse().await, refuse().await], [2, 3, 3]);
            was_accepted.store(true, SeqCst);
            assert_eq!([refuse().await, refuse().await, refuse().await], [3, 4, 5]);
        });
    }

    #[test]
    fn a_fetch_whose_runtime_was_shut_down_is_begun_again() {
        let issuer = Issuer::new();
        runtime().block_on(issuer.cancelled_caller());
        issuer.permits.add_permits(1);
        assert_eq!(runtime().block_on(issuer.current()).unwrap(), 2);
        let error = pin!(Issuer::new().current())
            .poll(&mut core::task::Context::from_waker(core::task::Waker::noop()));
        let Poll::Ready(Err(error)) = error else { panic!("{error:?}") };
        assert_eq!(error.field(), Some("runtime"), "{error}");
    }
}
