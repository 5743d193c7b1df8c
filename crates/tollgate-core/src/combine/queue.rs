//! One queue: callers in order, and the worker that waits for them.

use core::task::Waker;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use super::durations::Durations;
use super::sync::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Relaxed};
use super::waiter::Waiter;
use crate::error::{Code, Error};
use crate::store::CallContext;
use crate::time::Micros;

/// A round of this many waiters is large.
pub(super) const LARGE_ROUND: usize = 8;
/// This many waiters are worth a round beside a large one, however large that one is.
const SECOND_ROUND: usize = 32;

pub(super) struct Queue<J, R> {
    pub(super) state: Mutex<QueueState<J, R>>,
    /// Rounds that the backend answered.
    pub(super) answered: AtomicU64,
    /// What its last rounds took, as far as stores measure it.
    pub(super) durations: Durations,
    /// What its last rounds took from the beginning to the answers.
    pub(super) rounds: Durations,
    /// Whether the last one that was measured was in time for a caller.
    pub(super) is_served: AtomicBool,
    /// A thread waits for callers.
    pub(super) arrived: Condvar,
}

pub(super) struct QueueState<J, R> {
    pub(super) waiters: VecDeque<Arc<Waiter<J, R>>>,
    /// Waiters in the queue that were cancelled.
    pub(super) cancelled: usize,
    /// The size of the large round that is running, if there is one.
    pub(super) large: usize,
    pub(super) is_closed: bool,
    /// Whether it had a worker that has ended.
    pub(super) is_abandoned: bool,
    /// How many must wait before the worker is woken; 0 while it does not wait.
    pub(super) wanted: usize,
    pub(super) worker: Option<Waker>,
}

impl<J, R> Queue<J, R> {
    pub(super) fn new() -> Self {
        let state = QueueState {
            waiters: VecDeque::new(),
            cancelled: 0,
            large: 0,
            is_closed: false,
            is_abandoned: false,
            wanted: 0,
            worker: None,
        };
        Self {
            state: Mutex::new(state),
            answered: AtomicU64::new(0),
            durations: Durations::default(),
            rounds: Durations::default(),
            is_served: AtomicBool::new(false),
            arrived: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState<J, R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a caller that joins behind another one is refused: a round takes longer than it has
    /// left. Where rounds are in time for others that is contention, else the store is too slow.
    pub(super) fn refusal(&self, cx: CallContext<'_>) -> Option<Error> {
        let left = cx.time_left()?;
        if left >= self.rounds.shortest() {
            return None;
        }
        let (code, message) = if self.is_served.load(Relaxed) {
            let message = "other callers are served for longer than this call has left; nothing \
                           was charged";
            (Code::QueueFull, message)
        } else {
            let message = "the store takes longer to answer than this call has left; nothing was \
                           charged";
            (Code::Timeout, message)
        };
        Some(Error::new(code, message).not_sent().refused_here())
    }

    /// A round that served its callers took this long.
    pub(super) fn measure(&self, took: Micros) {
        self.durations.add(took);
        self.rounds.add(took);
        self.is_served.store(true, Relaxed);
    }

    /// Whether a call has no time to wait for a round that is under way and then for one of its
    /// own, as the last rounds were: both, and half a round more because durations vary.
    pub(super) fn is_slow_for(&self, cx: CallContext<'_>) -> bool {
        let round = self.rounds.shortest();
        round > 0 && cx.time_left().is_some_and(|left| left < round.saturating_mul(5) / 2)
    }

    /// Wakes the worker if it has what it waits for.
    pub(super) fn wake_worker(&self, mut state: MutexGuard<'_, QueueState<J, R>>) {
        let waker = state.worker.take();
        let is_wanted = state.wanted > 0 && (state.is_closed || state.len() >= state.wanted);
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        // Waking a thread is a system call.
        if is_wanted {
            self.arrived.notify_one();
        }
    }
}

impl<J, R> QueueState<J, R> {
    /// Callers that wait.
    pub(super) fn len(&self) -> usize {
        self.waiters.len() - self.cancelled
    }

    /// The first of the queue, and whether it still counts: a cancelled one does not.
    fn pop_front(&mut self) -> Option<(Arc<Waiter<J, R>>, bool)> {
        let waiter = self.waiters.pop_front()?;
        let counts = waiter.is_queued();
        waiter.set_queued(false);
        self.cancelled -= usize::from(!counts);
        Some((waiter, counts))
    }

    /// Takes up to `max` of those that wait, in order.
    pub(super) fn take(&mut self, max: usize) -> Vec<Arc<Waiter<J, R>>> {
        let mut taken = Vec::with_capacity(self.len().min(max));
        while taken.len() < max {
            match self.pop_front() {
                Some((waiter, true)) => taken.push(waiter),
                Some(_) => {}
                None => break,
            }
        }
        taken
    }

    /// Drops cancelled waiters from the front, so that the first is one that can be woken.
    pub(super) fn drop_cancelled_front(&mut self) {
        while self.waiters.front().is_some_and(|first| !first.is_waiting()) {
            self.pop_front();
        }
    }

    /// A waiter in the queue was cancelled. Drops all cancelled ones before they outnumber the
    /// others.
    pub(super) fn note_cancelled(&mut self, waiter: &Waiter<J, R>) {
        if !waiter.is_queued() {
            return;
        }
        waiter.set_queued(false);
        self.cancelled += 1;
        if self.cancelled > LARGE_ROUND && 2 * self.cancelled > self.waiters.len() {
            self.waiters.retain(|waiter| waiter.is_queued());
            self.cancelled = 0;
        }
    }

    /// Whether those that wait should run beside `running` other rounds. Beside a large round, a
    /// small one would cost a round trip of its own and take its waiters away from the next large
    /// one. A waiter without the time to wait for others is worth it.
    pub(super) fn is_worth_a_round(&self, running: u8) -> bool {
        running == 0
            || self.len() >= (self.large / 2).min(SECOND_ROUND)
            || self.waiters.front().is_some_and(|first| first.is_urgent())
    }
}
