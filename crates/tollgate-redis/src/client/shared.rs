//! A connection to one server that all callers share.
//!
//! Callers append commands to a queue; a task, the [driver](super::driver), writes them and hands
//! out the replies in the order of the commands. The first call starts the driver and waits for its
//! connection. When that is lost the driver makes another one, at once if the old one had worked
//! and then with growing pauses; calls in the meantime fail at once, as not sent. In a long pause a
//! call ends the pause and waits for the attempt: the call with which a breaker tries whether the
//! server is back finds out.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tollgate_core::{Code, Error, Result};

use super::driver;
use super::target::Target;
use crate::transport::Reply;

/// Commands that wait to be written, in bytes. A server that takes no more is unavailable.
const BACKLOG_MAX: usize = 32 * 1024 * 1024;

/// An answer that is older says little about the server.
const ANSWER_KEPT: Duration = Duration::from_secs(1);

/// A connection that is made anew whenever it is lost.
#[derive(Debug)]
pub(super) struct SharedConnection {
    queue: Arc<Queue>,
    target: Arc<Target>,
}

impl SharedConnection {
    pub(super) fn new(target: Arc<Target>) -> Self {
        Self { queue: Arc::default(), target }
    }

    /// Queues commands at once, one after another and with no other between them.
    pub(super) fn send<C>(
        &self,
        commands: impl ExactSizeIterator<Item = C>,
        encode: impl FnMut(&mut Vec<u8>, C),
    ) -> PendingReplies {
        let count = commands.len();
        let appended = self.queue.append(commands, encode);
        let receiver = appended.and_then(|(receiver, is_first)| match is_first {
            true => self.start().map(|()| receiver),
            false => Ok(receiver),
        });
        PendingReplies { count, receiver }
    }

    /// How long the last answer took, if it came within the last second.
    pub(super) fn last_answer(&self) -> Option<Duration> {
        let (at, took) = self.queue.lock().answered?;
        (at.elapsed() < ANSWER_KEPT).then_some(took)
    }

    /// Finishes the calls under way, and makes no more connections.
    pub(super) fn close(&self) {
        self.queue.enter(Phase::Closed);
    }

    fn start(&self) -> Result<()> {
        let Ok(runtime) = Handle::try_current() else {
            self.queue.enter(Phase::Idle);
            return Err(no_runtime());
        };
        runtime.spawn(driver::run(Started(Arc::clone(&self.queue)), Arc::clone(&self.target)));
        Ok(())
    }
}

impl Drop for SharedConnection {
    fn drop(&mut self) {
        self.close();
    }
}

/// The queue of a driver that runs. When its runtime ends, the next call starts another driver.
pub(super) struct Started(pub(super) Arc<Queue>);

impl Drop for Started {
    fn drop(&mut self) {
        self.0.enter(Phase::Idle);
    }
}

/// The replies to commands that were queued together.
#[derive(Debug)]
pub(super) struct PendingReplies {
    count: usize,
    receiver: Result<oneshot::Receiver<Vec<Result<Reply>>>>,
}

/// Resolves to one reply for each command.
impl Future for PendingReplies {
    type Output = Vec<Result<Reply>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let why = match &mut this.receiver {
            Ok(receiver) => match ready!(Pin::new(receiver).poll(cx)) {
                Ok(replies) => return Poll::Ready(replies),
                Err(_) => abandoned(),
            },
            Err(error) => error.clone(),
        };
        Poll::Ready((0..this.count).map(|_| Err(why.clone())).collect())
    }
}

/// Whether there is a connection.
#[derive(Debug, Default)]
pub(super) enum Phase {
    /// No driver runs.
    #[default]
    Idle,
    /// The first attempt is under way; what is queued waits for it.
    Opening,
    /// There is one.
    Up,
    /// There is none, for this reason; the driver will make another attempt.
    Down(Error),
    /// There will be none any more.
    Closed,
}

/// Commands and waiters between callers and the driver.
#[derive(Debug, Default)]
pub(super) struct Queue(Mutex<State>);

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) bytes: Vec<u8>,
    pub(super) waiting: Vec<Waiting>,
    /// The driver, when it waits for commands.
    pub(super) driver: Option<Waker>,
    /// When the last answer came, and how long it took.
    answered: Option<(Instant, Duration)>,
    /// Without a connection: whether the next call may wait for a new attempt, which it begins.
    is_due: bool,
}

/// The waiter for the replies to commands that stand one after another.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) waiter: Waiter,
    /// Bytes of all its commands, and of the first. Before all of the first are written, none of
    /// the commands has run.
    pub(super) bytes: usize,
    pub(super) first_bytes: usize,
}

/// Replies that are handed over together.
#[derive(Debug)]
pub(super) struct Waiter {
    sender: oneshot::Sender<Vec<Result<Reply>>>,
    replies: Vec<Result<Reply>>,
    missing: usize,
}

impl Queue {
    /// Appends commands; also returns whether a driver has to be started.
    fn append<C>(
        &self,
        commands: impl ExactSizeIterator<Item = C>,
        mut encode: impl FnMut(&mut Vec<u8>, C),
    ) -> Result<(oneshot::Receiver<Vec<Result<Reply>>>, bool)> {
        let mut state = self.lock();
        let is_first = match &state.phase {
            Phase::Idle => true,
            Phase::Down(why) if !state.is_due => return Err(why.clone().not_sent()),
            Phase::Opening | Phase::Up | Phase::Down(_) => false,
            Phase::Closed => return Err(closed()),
        };
        state.is_due = false;
        let start = state.bytes.len();
        if start > BACKLOG_MAX {
            let message = "Redis takes no more commands";
            return Err(Error::new(Code::StoreUnavailable, message).not_sent());
        }
        if is_first {
            state.phase = Phase::Opening;
        }
        let missing = commands.len();
        let mut first_end = None;
        for command in commands {
            encode(&mut state.bytes, command);
            first_end.get_or_insert(state.bytes.len());
        }
        let first_bytes = first_end.map_or(0, |end| end - start);
        let bytes = state.bytes.len() - start;
        let (sender, receiver) = oneshot::channel();
        let waiter = Waiter { sender, replies: Vec::with_capacity(missing), missing };
        state.waiting.push(Waiting { waiter, bytes, first_bytes });
        let driver = state.driver.take();
        drop(state);
        driver.into_iter().for_each(Waker::wake);
        Ok((receiver, is_first))
    }

    /// Enters a phase, unless closed for good. Without a connection nothing may wait for one: all
    /// that is queued fails as not sent.
    pub(super) fn enter(&self, phase: Phase) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Closed) {
            return;
        }
        let why = match &phase {
            Phase::Opening | Phase::Up => None,
            Phase::Down(why) => Some(why.clone().not_sent()),
            Phase::Idle | Phase::Closed => Some(closed()),
        };
        state.phase = phase;
        let Some(why) = why else { return };
        state.bytes.clear();
        let waiting = std::mem::take(&mut state.waiting);
        let driver = state.driver.take();
        drop(state);
        waiting.into_iter().for_each(|waiting| waiting.waiter.fail(&why));
        driver.into_iter().for_each(Waker::wake);
    }

    /// The answer to a command that was taken at `since` has come.
    pub(super) fn note_answer(&self, since: Instant) {
        let now = Instant::now();
        self.lock().answered = Some((now, now.saturating_duration_since(since)));
    }

    /// Waits for this long before the next attempt, or until a call wants to be sent. Until `least`
    /// has passed, calls fail at once.
    pub(super) async fn pause(&self, wait: Duration, least: Duration) {
        sleep(wait.min(least)).await;
        let wanted = poll_fn(|cx| {
            let mut state = self.lock();
            if !state.waiting.is_empty() || matches!(state.phase, Phase::Closed) {
                return Poll::Ready(());
            }
            state.is_due = true;
            state.driver = Some(cx.waker().clone());
            Poll::Pending
        });
        // Either ends the pause.
        let _ = timeout(wait.saturating_sub(least), wanted).await;
        self.lock().is_due = false;
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.lock().phase, Phase::Closed)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// Takes a reply; returns the waiter as long as it waits for more.
    pub(super) fn receive(mut self, reply: Reply) -> Option<Self> {
        self.replies.push(Ok(reply));
        self.missing = self.missing.saturating_sub(1);
        if self.missing > 0 {
            return Some(self);
        }
        // A caller that was cancelled needs no replies.
        let _ = self.sender.send(self.replies);
        None
    }

    /// Fails what is still waited for.
    pub(super) fn fail(self, why: &Error) {
        let Self { sender, mut replies, missing } = self;
        replies.extend((0..missing).map(|_| Err(why.clone())));
        let _ = sender.send(replies);
    }
}

pub(super) fn closed() -> Error {
    Error::new(Code::StoreUnavailable, "the connection to Redis is closed").not_sent()
}

pub(super) fn no_runtime() -> Error {
    let message = "the Redis client needs a tokio runtime with I/O and time";
    Error::new(Code::Unsupported, message).not_sent()
}

/// The driver ended; how far it came is unknown.
fn abandoned() -> Error {
    Error::new(Code::StoreUnavailable, "the connection to Redis ended before the reply")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::time::advance;

    use super::*;

    const LEAST: Duration = Duration::from_millis(50);

    fn call(queue: &Queue) -> Result<oneshot::Receiver<Vec<Result<Reply>>>> {
        queue.append(["x"].into_iter(), |bytes, text| bytes.extend(text.bytes())).map(|one| one.0)
    }

    fn disconnected() -> Arc<Queue> {
        let queue = Arc::<Queue>::default();
        queue.enter(Phase::Down(Error::new(Code::StoreUnavailable, "away")));
        queue
    }

    /// The driver has no other task beside it.
    async fn settle() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_a_long_pause_but_not_at_once() {
        let (queue, has_ended) = (disconnected(), Arc::new(AtomicBool::new(false)));
        let begun = Instant::now();
        let (paused, ended) = (Arc::clone(&queue), Arc::clone(&has_ended));
        let driver = tokio::spawn(async move {
            paused.pause(Duration::from_secs(1), LEAST).await;
            ended.store(true, Ordering::Relaxed);
        });
        settle().await;
        assert!(call(&queue).unwrap_err().is_not_sent(), "it was tried a moment ago");
        advance(LEAST).await;
        settle().await;
        assert!(!has_ended.load(Ordering::Relaxed), "no call wants a connection");
        let waits = call(&queue).expect("it waits for the attempt that it begins");
        assert!(call(&queue).unwrap_err().is_not_sent(), "a second one fails at once");
        driver.await.unwrap();
        assert_eq!(begun.elapsed(), LEAST);
        // The attempt fails.
        queue.enter(Phase::Down(Error::new(Code::StoreUnavailable, "away")));
        let replies = waits.await.unwrap();
        assert!(replies[0].as_ref().is_err_and(Error::is_not_sent));
        assert!(call(&queue).is_err(), "the next pause has not begun");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_without_calls_is_as_long_as_it_has_to_be() {
        for wait in [Duration::from_millis(20), LEAST, Duration::from_secs(1)] {
            let (queue, begun) = (disconnected(), Instant::now());
            queue.pause(wait, LEAST).await;
            assert_eq!(begun.elapsed(), wait);
            assert!(call(&queue).is_err());
        }
    }
}
