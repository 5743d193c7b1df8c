//! Contention and silence, told apart when the time of a call is up.
//!
//! A limiter waits for a store until a deadline. What is missing then may be missing for two reasons:
//! the backend is silent, which is an outage and decided by a failure mode, or others are served all
//! the time, which an attacker can cause and which must never admit anybody. Only the store knows which.
//! So a limiter that gives up polls the call one last time and then drops it, and [`is_over`] is true
//! meanwhile. A call that can tell that others held it up answers `conflict_exhausted` in that poll, or
//! `queue_full` if its turn never came; one that stays pending has met a `timeout`.
//!
//! The rule for stores: *an outage is silence*. Whoever has lost a race, or has seen somebody before it
//! in line being served, since its call began, has heard from the backend. [`last_words`] puts such an
//! answer around any future; [`Progress`] keeps the books of a queue; [`Unhurried`] is for work that goes
//! on without its caller. The adapter [`Cas`](super::Cas) does all of it for its backends. A store whose
//! calls neither wait for each other nor are repeated needs none of this.

use core::cell::Cell;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::task::{Context, Poll};

use crate::error::{Code, Error, Result};

/// How much of its time a call has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Left {
    Ample,
    /// Less than half of it.
    Scarce,
    Nothing,
}

std::thread_local! {
    static LEFT: Cell<Left> = const { Cell::new(Left::Ample) };
    /// Whether somebody had something to say, if anybody listens.
    static HEARD: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Whether the call that is being polled or dropped here is being given up because its time is up. A call
/// that is dropped for any other reason has a caller that went away.
#[must_use]
pub fn is_over() -> bool {
    LEFT.get() == Left::Nothing
}

/// Whether less than half of its time is left to the call that is being polled here. Whoever waited for
/// so long should not begin what others wait behind: it would end before it is answered, and so would
/// everybody else's in a queue where all have waited for long.
#[must_use]
pub fn is_scarce() -> bool {
    LEFT.get() >= Left::Scarce
}

/// Everything inside of `act` sees how much time is left, at most.
pub(crate) fn with<T>(left: Left, act: impl FnOnce() -> T) -> T {
    set_to(left.max(LEFT.get()), act)
}

fn set_to<T>(left: Left, act: impl FnOnce() -> T) -> T {
    /// Also when something panics, and for a call inside of a call.
    struct Before(Left);
    impl Drop for Before {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    let _before = Before(LEFT.replace(left));
    act()
}

/// Whether anything inside of `act` would say that it was held up, if its time were up now.
fn overhear<T>(act: impl FnOnce() -> T) -> (T, bool) {
    struct Before(Option<bool>);
    impl Drop for Before {
        fn drop(&mut self) {
            let heard = HEARD.get() == Some(true);
            HEARD.set(self.0.map(|before| before || heard));
        }
    }
    let before = Before(HEARD.replace(Some(false)));
    let done = act();
    let heard = HEARD.get() == Some(true);
    drop(before);
    (done, heard)
}

/// Runs a call that may know better than to be silent: if its time is up before it has answered, its
/// answer is what `say` returns then, if anything. Nothing new is begun by that last poll.
///
/// ```
/// # use std::pin::pin;
/// # use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
/// use tollgate_core::store::patience::last_words;
/// use tollgate_core::{Code, Error, Result};
///
/// # async fn swap() -> Result<bool> { Ok(true) }
/// async fn write() -> Result<()> {
///     let losses = AtomicU32::new(0);
///     let attempts = pin!(async {
///         while !swap().await? {
///             losses.fetch_add(1, Relaxed);
///         }
///         Ok(())
///     });
///     let lost = || Error::new(Code::ConflictExhausted, "others kept writing");
///     last_words(attempts, || (losses.load(Relaxed) > 0).then(|| Err(lost()))).await
/// }
/// ```
pub fn last_words<F: Future + Unpin>(
    mut call: F,
    say: impl Fn() -> Option<F::Output>,
) -> impl Future<Output = F::Output> {
    poll_fn(move |context| {
        let is_overheard = HEARD.get().is_some();
        if (is_over() || is_overheard)
            && let Some(words) = say()
        {
            note_held_up();
            if is_over() {
                return Poll::Ready(words);
            }
        }
        Pin::new(&mut call).poll(context)
    })
}

/// Says that others have held up the work that is being polled here, if it is [`Unhurried`] or a
/// [`round`](Progress::round).
pub fn note_held_up() {
    if HEARD.get().is_some() {
        HEARD.set(Some(true));
    }
}

/// Work that its caller may leave, and that then goes on by itself.
///
/// What consists of several steps must not end between two of them, so nothing in it is in a hurry, and
/// nothing in it ends because the time of the caller is up. But the caller hears what it would have said
/// ([`last_words`]), and what it notes ([`note_held_up`]).
#[derive(Debug, Default)]
pub struct Unhurried {
    is_held_up: bool,
}

impl Unhurried {
    /// Polls the work for its caller.
    pub fn poll<F: Future + ?Sized>(
        &mut self,
        work: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        let (polled, is_held_up) = overhear(|| set_to(Left::Ample, || work.poll(context)));
        self.is_held_up |= is_held_up;
        polled
    }

    /// What a caller is to say that leaves now: something if its time is up and others have held the work
    /// up since it began.
    #[must_use]
    pub fn last_words(&self) -> Option<Error> {
        let message = "others kept the keys busy until the time was up; the charge may be spent";
        (self.is_held_up && is_over()).then(|| Error::new(Code::ConflictExhausted, message))
    }
}

/// Makes calls one after another. When the time is up all of them have an answer: if others were answered
/// before them, `conflict_exhausted` the one that was under way and has nothing to say, and `queue_full`
/// those that were not begun; else `timeout`.
pub async fn one_by_one<I, T, F>(items: I, mut call: impl FnMut(I::Item) -> F) -> Vec<Result<T>>
where
    I: IntoIterator,
    F: Future<Output = Result<T>>,
{
    let items = items.into_iter();
    let mut answers = Vec::with_capacity(items.size_hint().0);
    for item in items {
        let answer = if is_over() {
            Err(unbegun(answers.iter().any(is_answer)))
        } else {
            or_cut_off(pin!(call(item)), || answers.iter().any(is_answer)).await
        };
        answers.push(answer);
    }
    answers
}

/// Runs a call of a batch: when the time is up it ends, so that the answers of the others are not lost. If
/// those were answered the backend is not silent, and whoever sends long batches must not be let in for
/// that.
pub fn or_cut_off<T, F>(
    mut call: F,
    were_others_answered: impl Fn() -> bool,
) -> impl Future<Output = Result<T>>
where
    F: Future<Output = Result<T>> + Unpin,
{
    poll_fn(move |context| match Pin::new(&mut call).poll(context) {
        Poll::Pending if is_over() => Poll::Ready(Err(if were_others_answered() {
            let message =
                "the rest of the batch took until the time was up; the charge may be spent";
            Error::new(Code::ConflictExhausted, message)
        } else {
            silent()
        })),
        polled => polled,
    })
}

/// How the work behind a queue goes on, for those who wait in it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Rounds that the backend answered.
    ended: AtomicU64,
    /// Whether the round under way waits for others to let go of what it needs.
    is_blocked: AtomicBool,
}

impl Progress {
    /// Work that has not begun.
    #[must_use]
    pub const fn new() -> Self {
        Self { ended: AtomicU64::new(0), is_blocked: AtomicBool::new(false) }
    }

    /// The backend has answered a round, whatever it said: nobody in the queue waits for a silent one.
    pub fn round_ended(&self) {
        self.ended.fetch_add(1, Relaxed);
    }

    /// Says whether the round under way is known to wait for others, who hold what it needs, and not for
    /// the backend.
    pub fn set_blocked(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Relaxed);
    }

    /// Runs a round. Those who wait for it are held up as soon as something in it is.
    pub async fn round<F: Future>(&self, round: F) -> F::Output {
        struct Blocked<'p>(&'p Progress);
        impl Drop for Blocked<'_> {
            fn drop(&mut self) {
                self.0.set_blocked(false);
            }
        }
        let mut blocked = None;
        let mut round = pin!(round);
        poll_fn(|context| {
            let (polled, is_held_up) = overhear(|| round.as_mut().poll(context));
            if is_held_up {
                self.set_blocked(true);
                blocked.get_or_insert(Blocked(self));
            }
            polled
        })
        .await
    }

    /// A call begins to wait.
    #[must_use]
    pub fn wait(&self) -> Waiting<'_> {
        Waiting { progress: self, since: self.ended.load(Relaxed) }
    }
}

/// A call that waits for a queue to be worked off.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'p> {
    progress: &'p Progress,
    since: u64,
}

impl Waiting<'_> {
    /// What to say if it was others who held the call up, so far: `queue_full`.
    #[must_use]
    pub fn held_up(&self) -> Option<Error> {
        let has_ended = self.progress.ended.load(Relaxed) != self.since;
        let message = "others were served until the time was up; the charge may be spent";
        (has_ended || self.progress.is_blocked.load(Relaxed))
            .then(|| Error::new(Code::QueueFull, message))
    }

    /// The answer of the call. When its time is up, `queue_full` if others held it up.
    pub fn answer<T, F>(&self, call: F) -> impl Future<Output = Result<T>>
    where
        F: Future<Output = Result<T>> + Unpin,
    {
        last_words(call, || self.held_up().map(Err))
    }

    /// The same for a call of a batch, which has to end so that the answers of the others are not lost:
    /// when its time is up, `queue_full` or `timeout`.
    pub fn answer_in_batch<T, F>(&self, call: F) -> impl Future<Output = Result<T>>
    where
        F: Future<Output = Result<T>> + Unpin,
    {
        last_words(call, || Some(Err(self.held_up().unwrap_or_else(silent))))
    }
}

/// Whether the backend was heard.
pub(crate) fn is_answer<T>(answer: &Result<T>) -> bool {
    !answer.as_ref().is_err_and(Error::is_outage)
}

/// A call of a batch that was not begun when the time was up.
pub(crate) fn unbegun(others_were_answered: bool) -> Error {
    let error = if others_were_answered {
        let message = "the rest of the batch took until the time was up; nothing was charged";
        Error::new(Code::QueueFull, message)
    } else {
        silent()
    };
    error.not_sent()
}

/// The backend did not answer until the time was up.
#[must_use]
pub fn silent() -> Error {
    Error::new(Code::Timeout, "the store did not answer within the deadline")
}

#[cfg(test)]
mod tests;
