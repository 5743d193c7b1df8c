//! A task or a thread that takes the rounds of one queue.

use core::fmt;
use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;
use std::sync::{Arc, PoisonError};

use super::combiner::{closed, fail_all};
use super::queue::QueueState;
use super::sync::MutexGuard;
use super::waiter::Waiter;
use super::{Combiner, Reply, Round};

/// The worker of one queue. However it ends, no caller waits for it any more: the queue is closed,
/// and its waiters are answered that nothing was charged.
pub struct Worker<J, R: Reply> {
    combiner: Arc<Combiner<J, R>>,
    queue: usize,
}

/// Why a thread was woken.
#[derive(Debug)]
pub enum Wakeup<T> {
    /// Callers wait.
    Round(T),
    /// The time has passed.
    Timeout,
    /// No caller waits, and none will.
    Closed,
}

impl<J, R: Reply> Worker<J, R> {
    pub(super) const fn new(combiner: Arc<Combiner<J, R>>, queue: usize) -> Self {
        Self { combiner, queue }
    }

    /// Waits until callers wait; `None` when the queue is closed and all were served.
    pub async fn next_round(&self) -> Option<Round<J, R>> {
        poll_fn(|context| {
            let mut state = self.lock();
            let members = self.take(&mut state);
            if members.is_empty() && !state.is_closed {
                state.worker = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready((!members.is_empty()).then(|| self.round(members)))
        })
        .await
    }

    /// A round of those that wait now, if any do.
    #[must_use]
    pub fn try_next_round(&self) -> Option<Round<J, R>> {
        let members = self.take(&mut self.lock());
        (!members.is_empty()).then(|| self.round(members))
    }

    /// Blocks the thread until callers wait, or for `limit`.
    #[must_use]
    pub fn next_round_blocking(&self, limit: Option<Duration>) -> Wakeup<Round<J, R>> {
        let mut state = self.wait(1, limit);
        let members = self.take(&mut state);
        match (members.is_empty(), state.is_closed) {
            (false, _) => Wakeup::Round(self.round(members)),
            (true, true) => Wakeup::Closed,
            (true, false) => Wakeup::Timeout,
        }
    }

    /// Blocks the thread until this many callers wait, or for `limit`, or until the queue is
    /// closed.
    pub fn wait_for(&self, callers: usize, limit: Duration) {
        drop(self.wait(callers, Some(limit)));
    }

    /// How many callers wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().len()
    }

    fn wait(&self, wanted: usize, limit: Option<Duration>) -> MutexGuard<'_, QueueState<J, R>> {
        let arrived = &self.combiner.queue(self.queue).arrived;
        let is_idle = |state: &mut QueueState<J, R>| state.len() < wanted && !state.is_closed;
        let mut state = self.lock();
        state.wanted = wanted;
        let mut state = match limit {
            None => arrived.wait_while(state, is_idle).unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                let waited = arrived.wait_timeout_while(state, limit, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.wanted = 0;
        state
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<J, R>> {
        self.combiner.queue(self.queue).lock()
    }

    fn take(&self, state: &mut QueueState<J, R>) -> Vec<Arc<Waiter<J, R>>> {
        let members = state.take(self.combiner.limits.round);
        self.combiner.gate(self.queue).set_awaited(!state.waiters.is_empty());
        members
    }

    fn round(&self, members: Vec<Arc<Waiter<J, R>>>) -> Round<J, R> {
        Round::new(Arc::clone(&self.combiner), self.queue, members)
    }
}

impl<J, R: Reply> Drop for Worker<J, R> {
    fn drop(&mut self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.is_abandoned = true;
        let left = state.take(usize::MAX);
        drop(state);
        fail_all(left, &closed());
    }
}

impl<J, R: Reply> fmt::Debug for Worker<J, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("queue", &self.queue).finish_non_exhaustive()
    }
}
