//! The queues of callers: how a caller joins one, and how its rounds begin and end.

use core::fmt;
use std::sync::Arc;

use super::gate::{FirstGate, Gate, RUNNING_MAX};
use super::queue::{LARGE_ROUND, Queue, QueueState};
use super::sync::{MutexGuard, Relaxed};
use super::waiter::Waiter;
use super::{Pending, Permit, Queues, Worker};
use crate::error::{Code, Error, Result};
use crate::maybe_send::BoxFuture;
use crate::store::CallContext;

/// A round that is under way.
pub type Work = BoxFuture<'static, ()>;

/// What a waiter gets in the end.
pub trait Reply: Sized {
    /// The answer to a waiter whose round failed.
    fn failed(error: Error) -> Self;
}

impl<T> Reply for Result<T> {
    fn failed(error: Error) -> Self {
        Err(error)
    }
}

/// The bounds of a combiner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Callers that may wait in one queue; more get `queue_full`.
    pub waiting: usize,
    /// Waiters in one round.
    pub round: usize,
    /// Rounds of one queue that callers may run at once, at most 63; if rounds take so long that a
    /// caller has no time to wait for the end of one, up to 63. Workers decide themselves how many
    /// they run.
    pub concurrent: u8,
}

/// Queues of callers that share rounds.
pub struct Combiner<J, R> {
    pub(super) limits: Limits,
    first: FirstGate,
    /// The gates of all other queues.
    gates: Box<[Gate]>,
    queues: Box<[Queue<J, R>]>,
}

impl<J, R: Reply> Combiner<J, R> {
    /// A combiner of this many queues, at least one.
    #[must_use]
    pub fn new(queues: usize, limits: Limits) -> Arc<Self> {
        let queues = queues.max(1);
        let limits = Limits {
            round: limits.round.max(1),
            concurrent: limits.concurrent.clamp(1, RUNNING_MAX),
            ..limits
        };
        Arc::new(Self {
            limits,
            first: FirstGate::default(),
            gates: (1..queues).map(|_| Gate::default()).collect(),
            queues: (0..queues).map(|_| Queue::new()).collect(),
        })
    }

    /// Permission for one call that meets no other caller in its queue. Takes no lock.
    #[must_use]
    pub fn try_enter(self: &Arc<Self>, queue: usize) -> Option<Permit<'_, J, R>> {
        let is_free = self.gate(queue).try_enter(self.limits.concurrent);
        is_free.then(|| Permit::new(self, queue))
    }

    /// Whether a call has no time to wait for the end of a round: the last rounds took too long for
    /// that. Such a call is to be submitted, also where it could enter alone: callers that come at
    /// once then share a round, which begins beside those that are under way.
    #[must_use]
    pub fn is_slow_for(&self, queue: usize, cx: CallContext<'_>) -> bool {
        self.queue(queue).is_slow_for(cx)
    }

    /// Adds a caller to a queue.
    ///
    /// # Errors
    /// `queue_full`, `store_unavailable` once the queue is closed, or `timeout` if others wait and
    /// the store is too slow for this call. All are marked as not sent.
    pub fn submit<'c>(
        self: &'c Arc<Self>,
        queue: usize,
        job: J,
        cx: CallContext<'c>,
    ) -> Result<Pending<'c, J, R>> {
        let own = self.queue(queue);
        let (refusal, is_urgent) = (own.refusal(cx), own.is_slow_for(cx));
        let mut state = own.lock();
        if state.is_closed {
            return Err(closed());
        }
        // A caller that finds no other waiting goes on, so that rounds are measured anew.
        if let Some(refusal) = refusal.filter(|_| state.len() > 0) {
            return Err(refusal);
        }
        if state.len() >= self.limits.waiting {
            return Err(Error::new(Code::QueueFull, "too many calls wait for the store").not_sent());
        }
        let waiter = Waiter::new(job, (own.answered.load(Relaxed), 0), true).urgent(is_urgent);
        let waiter = Arc::new(waiter);
        state.waiters.push_back(Arc::clone(&waiter));
        self.gate(queue).set_awaited(true);
        own.wake_worker(state);
        Ok(Pending::new(self, queue, waiter, cx))
    }

    /// Accepts no more callers. Those that wait are still served.
    pub fn close(&self) {
        for queue in &self.queues {
            let mut state = queue.lock();
            state.is_closed = true;
            queue.wake_worker(state);
        }
    }

    /// Makes the caller the worker of a queue: a task or a thread that takes its rounds.
    #[must_use]
    pub fn worker(self: &Arc<Self>, queue: usize) -> Worker<J, R> {
        Worker::new(Arc::clone(self), queue)
    }

    pub(super) fn gate(&self, queue: usize) -> &Gate {
        let other = queue.checked_sub(1).and_then(|other| self.gates.get(other));
        other.unwrap_or(&self.first.0)
    }

    /// Queues that do not exist are the first one, like their gates.
    pub(super) fn queue(&self, queue: usize) -> &Queue<J, R> {
        #[expect(clippy::indexing_slicing, reason = "there is at least one queue")]
        self.queues.get(queue).unwrap_or_else(|| &self.queues[0])
    }
}

impl<J, R: Reply> Queues<J, R> for Combiner<J, R> {
    type Queue = usize;

    fn round_max(&self) -> usize {
        self.limits.round
    }

    fn answered(&self, queue: &usize) -> u64 {
        self.queue(*queue).answered.load(Relaxed)
    }

    fn count_answered(&self, queue: &usize) {
        self.queue(*queue).answered.fetch_add(1, Relaxed);
    }

    fn take(&self, queue: &usize, max: usize) -> Vec<Arc<Waiter<J, R>>> {
        let mut state = self.queue(*queue).lock();
        let taken = state.take(max);
        self.gate(*queue).set_awaited(!state.waiters.is_empty());
        taken
    }

    fn put_back(&self, queue: &usize, waiters: Vec<Arc<Waiter<J, R>>>) {
        let own = self.queue(*queue);
        let mut state = own.lock();
        if state.is_abandoned {
            drop(state);
            return fail_all(waiters, &closed());
        }
        for waiter in waiters.into_iter().rev() {
            if waiter.wait_again(0) {
                waiter.set_queued(true);
                state.waiters.push_front(waiter);
            }
        }
        own.wake_worker(state);
        self.wake_first(*queue, own.lock());
    }

    fn lead(&self, queue: &usize, waiter: &Arc<Waiter<J, R>>) -> Option<Vec<Arc<Waiter<J, R>>>> {
        let gate = self.gate(*queue);
        let concurrent = if waiter.is_urgent() { RUNNING_MAX } else { self.limits.concurrent };
        // Most callers find rounds running and need no lock: the caller has left its waker, and a
        // round that ends wakes the first of the queue after it has left the gate.
        if gate.running() >= concurrent {
            return None;
        }
        let mut state = self.queue(*queue).lock();
        let running = gate.running();
        if running >= concurrent || !state.is_worth_a_round(running) {
            return None;
        }
        // Before the waiters are taken, after which single calls may enter.
        gate.enter();
        let round = self.begin(gate, &mut state);
        if round.is_empty() {
            gate.leave();
            return None;
        }
        Some(round)
    }

    fn end(&self, queue: &usize, size: usize) {
        let gate = self.gate(*queue);
        if size < LARGE_ROUND && gate.try_leave() {
            return;
        }
        let mut state = self.queue(*queue).lock();
        end_large(gate, &mut state, size);
        gate.leave();
        self.wake_first(*queue, state);
    }

    fn cancelled(&self, queue: &usize, waiter: &Arc<Waiter<J, R>>) {
        let mut state = self.queue(*queue).lock();
        state.note_cancelled(waiter);
        // It may have been woken to lead.
        self.wake_first(*queue, state);
    }
}

impl<J, R: Reply> Combiner<J, R> {
    /// Ends a round of this size, and begins the next one if waiters are left for it.
    pub(super) fn next(&self, queue: usize, size: usize) -> Option<Vec<Arc<Waiter<J, R>>>> {
        let (gate, mut state) = (self.gate(queue), self.queue(queue).lock());
        end_large(gate, &mut state, size);
        let others = gate.running().saturating_sub(1);
        // Else the round that ends last takes them.
        let is_worth_it = state.is_worth_a_round(others);
        let round = if is_worth_it { self.begin(gate, &mut state) } else { Vec::new() };
        if round.is_empty() {
            gate.leave();
            return None;
        }
        Some(round)
    }

    /// Takes a round. What a round means for the gate changes under the lock of the queue.
    fn begin(&self, gate: &Gate, state: &mut QueueState<J, R>) -> Vec<Arc<Waiter<J, R>>> {
        let round = state.take(self.limits.round);
        if round.len() >= LARGE_ROUND {
            state.large = round.len();
            gate.set_large(true);
        }
        gate.set_awaited(!state.waiters.is_empty());
        round
    }

    fn wake_first(&self, queue: usize, mut state: MutexGuard<'_, QueueState<J, R>>) {
        state.drop_cancelled_front();
        self.gate(queue).set_awaited(!state.waiters.is_empty());
        let first = state.waiters.front().cloned();
        drop(state);
        first.into_iter().for_each(|waiter| waiter.wake());
    }
}

fn end_large<J, R>(gate: &Gate, state: &mut QueueState<J, R>, size: usize) {
    if size >= LARGE_ROUND && size == state.large {
        state.large = 0;
        gate.set_large(false);
    }
}

/// All of them failed for one reason: that is one event for a breaker.
pub(super) fn fail_all<J, R: Reply>(waiters: Vec<Arc<Waiter<J, R>>>, error: &Error) {
    let error = error.clone().as_event();
    for waiter in waiters {
        waiter.answer_with(|| R::failed(error.clone()));
    }
}

pub(super) fn closed() -> Error {
    Error::new(Code::StoreUnavailable, "the store is closed").not_sent()
}

impl<J, R> fmt::Debug for Combiner<J, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Combiner")
            .field("limits", &self.limits)
            .field("queues", &self.queues.len())
            .finish_non_exhaustive()
    }
}
