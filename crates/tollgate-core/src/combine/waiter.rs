//! One caller that waits for an answer: waiting, then answered or cancelled, each once.
//!
//! All transitions are made under one small lock, so a round and a cancelled caller agree on what
//! happened first. A caller that is cancelled before its round was marked as sent is not charged;
//! one that is cancelled later reports that it was sent.

use core::fmt;
use core::task::{Context, Waker};
use std::sync::PoisonError;

use super::pending::Driven;
use super::sync::{AtomicBool, Mutex, MutexGuard, Relaxed};
use crate::error::Error;
use crate::store::{CallContext, CallFacts};

/// A caller in a queue, or in a round.
#[doc(hidden)]
pub struct Waiter<J, R> {
    job: J,
    /// Rounds of its queues that were answered before it joined.
    joined_at: u64,
    /// Whether it may be decided in a round that another waiter leads.
    shares: bool,
    /// Whether it has no time to wait for a round that is under way.
    is_urgent: bool,
    /// Whether it is in a queue and counts there. Changed under the lock of its queue only.
    is_queued: AtomicBool,
    state: Mutex<State<J, R>>,
}

struct State<J, R> {
    phase: Phase<R>,
    /// Whether a round with it was sent and is not answered.
    is_sent: bool,
    /// Rounds with it that lost a race.
    losses: u32,
    /// Whether the backend reported that other writers hold its keys.
    is_contended: bool,
    /// Queues in which it is not at the front: a waiter of several queues leads when this is 0.
    missing: usize,
    waker: Option<Waker>,
    /// Rounds of which it is a member, and whose drivers were cancelled.
    handed_over: Vec<Driven<J, R>>,
}

enum Phase<R> {
    Waiting,
    Answered(R),
    /// The answer was taken, or the caller was cancelled.
    Gone,
}

/// What a waiter finds when it is polled.
pub(super) enum Polled<J, R> {
    Answered(R),
    /// It is to drive this round from now on.
    HandedOver(Driven<J, R>),
    Pending,
}

/// What a cancelled waiter leaves behind.
pub(super) struct Left<J, R> {
    /// An answer that was not taken.
    pub(super) answer: Option<R>,
    pub(super) handed_over: Vec<Driven<J, R>>,
    /// Whether it was waiting: then it has no answer.
    pub(super) was_waiting: bool,
}

impl<J, R> Waiter<J, R> {
    pub(super) fn new(job: J, (joined_at, missing): (u64, usize), shares: bool) -> Self {
        let state = State {
            phase: Phase::Waiting,
            is_sent: false,
            losses: 0,
            is_contended: false,
            missing,
            waker: None,
            handed_over: Vec::new(),
        };
        let is_queued = AtomicBool::new(true);
        Self { job, joined_at, shares, is_urgent: false, is_queued, state: Mutex::new(state) }
    }

    /// The same, which need not wait for a round that is under way.
    pub(super) fn urgent(mut self, is_urgent: bool) -> Self {
        self.is_urgent = is_urgent;
        self
    }

    pub(super) const fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    pub(super) const fn job(&self) -> &J {
        &self.job
    }

    pub(super) const fn shares(&self) -> bool {
        self.shares
    }

    pub(super) fn is_queued(&self) -> bool {
        self.is_queued.load(Relaxed)
    }

    pub(super) fn set_queued(&self, is_queued: bool) {
        self.is_queued.store(is_queued, Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State<J, R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.lock().phase, Phase::Waiting)
    }

    /// Gives the caller its answer, unless it has one or was cancelled. Returns whether it was
    /// given.
    pub(super) fn answer(&self, answer: R) -> bool {
        self.answer_with(|| answer)
    }

    /// As [`Waiter::answer`], with an answer that is made only if it is given.
    pub(super) fn answer_with(&self, answer: impl FnOnce() -> R) -> bool {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Waiting) {
            return false;
        }
        state.phase = Phase::Answered(answer());
        let waker = state.waker.take();
        drop(state);
        // Outside of the lock: an executor may poll the caller here.
        waker.into_iter().for_each(Waker::wake);
        true
    }

    /// From here on a cancelled caller may be charged. `false` if it was cancelled or answered
    /// before.
    pub(super) fn mark_sent(&self) -> bool {
        let mut state = self.lock();
        state.is_sent = matches!(state.phase, Phase::Waiting);
        state.is_sent
    }

    pub(super) fn mark_not_sent(&self) {
        self.lock().is_sent = false;
    }

    /// The round was answered, and has charged nothing: how many races it has lost. `None` if the
    /// caller was cancelled.
    pub(super) fn lose(&self) -> Option<u32> {
        let mut state = self.lock();
        state.is_sent = false;
        state.losses = state.losses.saturating_add(1);
        matches!(state.phase, Phase::Waiting).then_some(state.losses)
    }

    pub(super) fn mark_contended(&self) {
        self.lock().is_contended = true;
    }

    /// It waits behind the front of `missing` queues again, unless it does not wait any more.
    pub(super) fn wait_again(&self, missing: usize) -> bool {
        let mut state = self.lock();
        state.is_sent = false;
        state.missing = missing;
        matches!(state.phase, Phase::Waiting)
    }

    /// It has come to the front of one more queue. Whether it leads now, and its waker; `None` if
    /// it does not wait any more.
    pub(super) fn reach_front(&self) -> Option<(bool, Option<Waker>)> {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Waiting) {
            return None;
        }
        state.missing = state.missing.saturating_sub(1);
        let leads = state.missing == 0;
        Some((leads, if leads { state.waker.take() } else { None }))
    }

    /// Whether it waits and is at the front of all its queues.
    pub(super) fn may_lead(&self) -> bool {
        let state = self.lock();
        state.missing == 0 && matches!(state.phase, Phase::Waiting)
    }

    /// Wakes the caller, which checks whether it may lead.
    pub(super) fn wake(&self) {
        let waker = self.lock().waker.take();
        waker.into_iter().for_each(Waker::wake);
    }

    /// Makes this waiter drive a round on. The work comes back if it does not wait any more.
    pub(super) fn hand_over(&self, work: Driven<J, R>) -> Result<(), Driven<J, R>> {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Waiting) {
            return Err(work);
        }
        state.handed_over.push(work);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Ok(())
    }

    pub(super) fn poll(&self, context: &Context<'_>) -> Polled<J, R> {
        let mut state = self.lock();
        match core::mem::replace(&mut state.phase, Phase::Gone) {
            Phase::Answered(answer) => return Polled::Answered(answer),
            other => state.phase = other,
        }
        if let Some(work) = state.handed_over.pop() {
            return Polled::HandedOver(work);
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Polled::Pending
    }

    /// Why it is late, if contention has delayed it: `rounds` of its queues were answered so far.
    pub(super) fn delayed(&self, rounds: u64) -> Option<Error> {
        let facts = CallFacts::new();
        self.record(CallContext::at(0).with_facts(&facts), &self.lock(), rounds);
        Some(facts.expired()).filter(|error| !error.is_outage())
    }

    fn record(&self, cx: CallContext<'_>, state: &State<J, R>, rounds: u64) {
        if state.losses > 0 || state.is_contended {
            cx.lost_race();
        }
        if rounds != self.joined_at {
            cx.others_served();
        }
        if state.is_sent { cx.sent() } else { cx.waiting() }
    }

    /// Ends it, and records its facts: `rounds` of its queues were answered so far.
    pub(super) fn leave(&self, cx: CallContext<'_>, rounds: impl FnOnce() -> u64) -> Left<J, R> {
        let mut state = self.lock();
        let phase = core::mem::replace(&mut state.phase, Phase::Gone);
        let handed_over = core::mem::take(&mut state.handed_over);
        if matches!(phase, Phase::Waiting) {
            self.record(cx, &state, rounds());
        }
        // Foreign code must not run under the lock.
        let waker = state.waker.take();
        drop(state);
        drop(waker);
        let (answer, was_waiting) = match phase {
            Phase::Answered(answer) => (Some(answer), false),
            Phase::Waiting => (None, true),
            Phase::Gone => (None, false),
        };
        Left { answer, handed_over, was_waiting }
    }
}

impl<J, R> fmt::Debug for Waiter<J, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").field("is_waiting", &self.is_waiting()).finish_non_exhaustive()
    }
}
