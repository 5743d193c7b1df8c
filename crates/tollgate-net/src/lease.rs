//! What has to be fetched before anything can be asked, and again before it ends: tokens, credentials.
//!
//! It is always fetched in the background, for everybody who waits: callers have little time, and what
//! ended with its caller would never end where it takes longer than that. While the old one still works
//! nobody waits, and a failure does no harm: it is tried again a little later. A refusal is no outage, and
//! must not look like one to callers whose time is up before they hear of it: so it is told at once,
//! until the next attempt has ended otherwise.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tollgate_core::{Clock, Code, Error, Micros, Result};

const SECOND: Micros = 1_000_000;
/// A new one is fetched so long before the old one ends.
const EARLY: Micros = 60 * SECOND;
/// So long after one attempt the next is begun, while the old one still works.
const PATIENCE: Micros = 5 * SECOND;
/// So long after a refusal the next attempt is begun.
const CALM: Micros = SECOND;
/// How many runtimes may end under a caller who waits.
const WAITS_MAX: usize = 3;

/// Something that ends, and is fetched anew before that.
pub struct Lease<T> {
    clock: Arc<dyn Clock>,
    current: Mutex<Current<T>>,
}

struct Current<T> {
    held: Option<Held<T>>,
    /// Why the last attempt failed, if that was no outage.
    refusal: Option<Error>,
    /// No attempt is begun before this instant, if something is held or was refused.
    not_before: Micros,
    /// Nothing is forgotten before this instant.
    kept_until: Micros,
    /// The one that is under way.
    attempt: Option<Attempt<T>>,
}

struct Held<T> {
    value: Arc<T>,
    ends: Micros,
}

/// Tells those who wait how an attempt has ended. Closed without that, it ended with its runtime.
type Attempt<T> = watch::Receiver<Option<Ended<T>>>;
type Ended<T> = core::result::Result<Arc<T>, Arc<Error>>;

/// What a caller finds.
enum Found<T> {
    Held(Arc<T>),
    Attempt(Attempt<T>),
}

impl<T: Send + Sync + 'static> Lease<T> {
    /// Nothing is held yet. The clock tells when it ends.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        let current =
            Current { held: None, refusal: None, not_before: 0, kept_until: 0, attempt: None };
        Arc::new(Self { clock, current: Mutex::new(current) })
    }

    /// What is held now, fetched if there is nothing that works: `fetch` returns it, and when it ends. It must
    /// itself end at some time.
    ///
    /// # Errors
    /// Those of `fetch`, all marked as unsent. `config_invalid` naming `runtime` outside of one.
    pub async fn current<F>(self: &Arc<Self>, fetch: impl Fn() -> F) -> Result<Arc<T>>
    where
        F: Future<Output = Result<(T, Micros)>> + Send + 'static,
    {
        for _ in 0..WAITS_MAX {
            let mut attempt = match self.find(&fetch)? {
                Found::Held(value) => return Ok(value),
                Found::Attempt(attempt) => attempt,
            };
            if let Ok(ended) = attempt.wait_for(Option::is_some).await
                && let Some(ended) = ended.as_ref()
            {
                return ended.clone().map_err(|error| Error::clone(&error).not_sent());
            }
        }
        let message = "the runtime ended while a token was fetched";
        Err(Error::new(Code::StoreUnavailable, message).not_sent())
    }

    /// Forgets what was not accepted, unless there is something newer already. One that has never worked, like
    /// the one before it, is kept for a while: else it would be fetched for every request, and callers who have no
    /// time to wait for that would never hear that it is refused.
    pub fn forget(&self, refused: &Arc<T>, has_worked: bool) {
        let now = self.clock.now();
        let mut current = self.lock();
        let is_held = current.held.as_ref().is_some_and(|held| Arc::ptr_eq(&held.value, refused));
        if is_held && (has_worked || now >= current.kept_until) {
            (current.held, current.refusal) = (None, None);
            current.kept_until = now.saturating_add(PATIENCE);
        }
    }

    fn find<F>(self: &Arc<Self>, fetch: &impl Fn() -> F) -> Result<Found<T>>
    where
        F: Future<Output = Result<(T, Micros)>> + Send + 'static,
    {
        let mut current = self.lock();
        let now = self.clock.now();
        let may_begin = now >= current.not_before;
        if let Some(held) = &current.held {
            let (value, ends) = (Arc::clone(&held.value), held.ends);
            if may_begin && now.saturating_add(EARLY) >= ends {
                self.begin(&mut current, now, fetch)?;
            }
            if !may_begin || now < ends {
                return Ok(Found::Held(value));
            }
        } else if let Some(refusal) = &current.refusal {
            let refusal = refusal.clone().not_sent();
            if may_begin {
                self.begin(&mut current, now, fetch)?;
            }
            return Err(refusal);
        }
        self.begin(&mut current, now, fetch).map(Found::Attempt)
    }

    /// Sees to it that an attempt is under way.
    fn begin<F>(
        self: &Arc<Self>,
        current: &mut Current<T>,
        now: Micros,
        fetch: &impl Fn() -> F,
    ) -> Result<Attempt<T>>
    where
        F: Future<Output = Result<(T, Micros)>> + Send + 'static,
    {
        if let Some(attempt) = &current.attempt
            && attempt.has_changed().is_ok()
        {
            return Ok(attempt.clone());
        }
        let runtime = Handle::try_current().map_err(|_| {
            Error::config("runtime", "is missing; use the store inside of a tokio runtime")
                .not_sent()
        })?;
        let (tell, attempt) = watch::channel(None);
        current.attempt = Some(attempt.clone());
        let (lease, fetched) = (Arc::clone(self), fetch());
        drop(runtime.spawn(async move {
            let ended = lease.settle(fetched.await, now);
            tell.send_replace(Some(ended));
        }));
        Ok(attempt)
    }

    /// Keeps what an attempt that was begun at `now` came to.
    fn settle(&self, fetched: Result<(T, Micros)>, now: Micros) -> Ended<T> {
        let mut current = self.lock();
        current.attempt = None;
        match fetched {
            Ok((value, ends)) => {
                let value = Arc::new(value);
                current.held = Some(Held { value: Arc::clone(&value), ends });
                current.refusal = None;
                // What lives no longer than that is not fetched for every request.
                current.not_before = now.saturating_add(PATIENCE);
                Ok(value)
            }
            Err(error) => {
                current.held.take_if(|held| now >= held.ends);
                let pause = if current.held.is_some() { PATIENCE } else { CALM };
                current.not_before = now.saturating_add(pause);
                current.refusal = (!error.is_outage()).then(|| error.clone());
                Err(Arc::new(error))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Current<T>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Without what is held: it is a secret.
impl<T> fmt::Debug for Lease<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").finish_non_exhaustive()
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

    /// Hands out numbers, one per permit, each of which lives for 100 s.
    struct Desk {
        clock: ManualClock,
        lease: Arc<Lease<u64>>,
        begun: Arc<AtomicU64>,
        permits: Arc<Semaphore>,
    }

    impl Desk {
        fn new() -> Self {
            let clock = ManualClock::at(START);
            let lease = Lease::new(Arc::new(clock.clone()));
            Self { clock, lease, begun: Arc::default(), permits: Arc::new(Semaphore::new(0)) }
        }

        async fn ask(&self) -> Result<u64> {
            let fetch = || {
                let number = self.begun.fetch_add(1, SeqCst) + 1;
                let (permits, ends) = (Arc::clone(&self.permits), self.clock.now() + 100 * SECOND);
                async move {
                    permits.acquire().await.unwrap().forget();
                    Ok((number, ends))
                }
            };
            self.lease.current(fetch).await.map(|number| *number)
        }

        /// A caller that goes away at once.
        async fn leave(&self) {
            let mut call = pin!(self.ask());
            let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
            assert!(polled.is_pending(), "{polled:?}");
        }

        /// Until what was fetched is held.
        async fn settled(&self) {
            while self.lease.lock().attempt.is_some() {
                tokio::task::yield_now().await;
            }
        }
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn an_attempt_goes_on_although_nobody_has_the_time_to_wait_for_it() {
        runtime().block_on(async {
            let desk = Desk::new();
            desk.leave().await;
            tokio::task::yield_now().await;
            desk.leave().await;
            desk.permits.add_permits(1);
            desk.settled().await;
            assert_eq!(desk.ask().await.unwrap(), 1);
            assert_eq!(desk.begun.load(SeqCst), 1, "somebody began anew");
        });
    }

    #[test]
    fn nobody_waits_while_the_old_one_works() {
        runtime().block_on(async {
            let desk = Desk::new();
            desk.permits.add_permits(1);
            for (second, begun) in [(0, 1), (39, 1), (40, 2), (99, 2)] {
                desk.clock.set(START + second * SECOND);
                assert_eq!(desk.ask().await.unwrap(), 1);
                assert_eq!(desk.begun.load(SeqCst), begun, "second {second}");
            }
            desk.clock.set(START + 100 * SECOND);
            desk.leave().await;
            desk.permits.add_permits(1);
            assert_eq!(desk.ask().await.unwrap(), 2);
        });
    }

    #[test]
    fn a_refusal_is_told_at_once_and_an_outage_is_tried_again() {
        runtime().block_on(async {
            let desk = Desk::new();
            let fail = |code| move || ready(Err(Error::new(code, "no")));
            let code = async |code| desk.lease.current(fail(code)).await.unwrap_err().code();
            assert_eq!(code(Code::StoreUnavailable).await, Code::StoreUnavailable);
            assert_eq!(code(Code::ConfigInvalid).await, Code::ConfigInvalid);
            // Too early for another attempt.
            assert_eq!(desk.ask().await.unwrap_err().code(), Code::ConfigInvalid);
            assert_eq!(desk.begun.load(SeqCst), 0);
            desk.clock.set(START + CALM);
            for _ in 0..2 {
                let error = desk.ask().await.unwrap_err();
                assert_eq!((error.code(), error.is_not_sent()), (Code::ConfigInvalid, true));
            }
            desk.permits.add_permits(1);
            desk.settled().await;
            assert_eq!(desk.ask().await.unwrap(), 1);
        });
    }

    #[test]
    fn what_is_refused_again_and_again_is_not_fetched_for_everybody() {
        runtime().block_on(async {
            let desk = Desk::new();
            desk.permits.add_permits(10);
            let has_worked = AtomicBool::new(false);
            let refuse = async || {
                let held = desk.ask().await.unwrap();
                let value = desk.lease.lock().held.as_ref().map(|held| Arc::clone(&held.value));
                desk.lease.forget(&value.unwrap(), has_worked.load(SeqCst));
                held
            };
            assert_eq!([refuse().await, refuse().await, refuse().await], [1, 2, 2]);
            desk.clock.set(START + PATIENCE);
            assert_eq!([refuse().await, refuse().await, refuse().await], [2, 3, 3]);
            has_worked.store(true, SeqCst);
            assert_eq!([refuse().await, refuse().await, refuse().await], [3, 4, 5]);
        });
    }

    #[test]
    fn what_ended_with_its_runtime_is_begun_anew() {
        let desk = Desk::new();
        runtime().block_on(desk.leave());
        desk.permits.add_permits(1);
        assert_eq!(runtime().block_on(desk.ask()).unwrap(), 2);
        let error = pin!(Desk::new().ask())
            .poll(&mut core::task::Context::from_waker(core::task::Waker::noop()));
        let Poll::Ready(Err(error)) = error else { panic!("{error:?}") };
        assert_eq!(error.field(), Some("runtime"), "{error}");
    }
}
