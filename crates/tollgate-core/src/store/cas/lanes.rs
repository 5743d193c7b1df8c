//! One lane per busy key: admissions of this process on one key take turns, first come first served.
//!
//! Without lanes a hot key would make every caller lose its race to its neighbours. The front
//! [`Ticket`] of a lane holds the key, the others wait behind it. A ticket joins all lanes of its
//! admission in one critical section, so that any two tickets meet in the same order everywhere:
//! that is why waiting can neither deadlock nor overtake. A ticket that carries a [`Job`] may be
//! answered by whoever leads in front of it (see `combine`).
//!
//! Each lane counts the rounds that the backend answered: a ticket that has seen one end since it joined
//! was held up by others and not by silence. So was one that stood behind a leader which had seen one, and
//! gave up when its time was up, or behind one which went away before its time was up, as anybody can make
//! callers do; but that is hearsay, and is not passed on, else it would outlive the backend.
//!
//! Tickets that were answered or dropped stay where they are and are skipped when their turn comes:
//! a dropped waiter costs O(1) and never blocks the others. Wakers run only after the lock is
//! released, because an executor may poll from inside of `wake`.

use core::borrow::Borrow;
use core::future::poll_fn;
use core::hash::{Hash, Hasher};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::task::{Context, Poll, Waker};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Evidence, TimeSource};
use crate::charge::Charge;
use crate::error::Result;
use crate::owned::OwnedCharge;
use crate::store::patience::is_over;

/// The lanes of all busy keys of one adapter.
#[derive(Debug, Default)]
pub(super) struct Lanes(Mutex<Waiting>);

/// Who waits in which lane.
type Waiting = HashMap<Lane, VecDeque<Arc<Ticket>>>;

/// A lane.
#[derive(Clone, Debug)]
struct Lane(Arc<Sign>);

/// What a lane is called, and what happened in it.
#[derive(Debug)]
struct Sign {
    key: Box<str>,
    /// Rounds that the backend has answered.
    rounds: AtomicU64,
    /// Leaders that gave up although they had seen such a round, or went away.
    gave_up: AtomicU64,
}

impl Lane {
    fn of(key: &str) -> Self {
        let (rounds, gave_up) = (AtomicU64::new(0), AtomicU64::new(0));
        Self(Arc::new(Sign { key: key.into(), rounds, gave_up }))
    }

    /// How many rounds were answered, and how many leaders gave up.
    fn seen(&self) -> (u64, u64) {
        (self.0.rounds.load(Relaxed), self.0.gave_up.load(Relaxed))
    }
}

impl Borrow<str> for Lane {
    fn borrow(&self) -> &str {
        &self.0.key
    }
}

/// As its key, which it is looked up by.
impl Hash for Lane {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}

impl PartialEq for Lane {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for Lane {}

/// What a leader needs to decide for a waiter: owned, because the waiter's future may go away.
#[derive(Clone, Debug)]
pub(super) struct Job {
    charge: OwnedCharge,
    pub(super) at: TimeSource,
}

impl Job {
    pub(super) fn of(charge: &Charge<'_>, at: TimeSource) -> Self {
        Self { charge: charge.into(), at }
    }

    pub(super) fn charge(&self) -> Charge<'_> {
        self.charge.as_charge()
    }
}

/// A place in the lanes of an admission's keys.
#[derive(Debug)]
pub(super) struct Ticket {
    /// Its lanes, and what had happened in each before it joined.
    lanes: Vec<(Lane, (u64, u64))>,
    /// Present when somebody else may decide for this ticket.
    job: Option<Job>,
    seat: Mutex<Seat>,
}

#[derive(Debug)]
struct Seat {
    phase: Phase,
    /// Lanes in which the ticket is not at the front yet.
    missing: usize,
    /// Whether it has what it came for, or knows that there is nothing.
    has_ended: bool,
    /// Attempts of a round with this ticket that lost their race.
    losses: u32,
    waker: Option<Waker>,
}

#[derive(Debug)]
enum Phase {
    Waiting,
    Answered(Result<Evidence>),
    Left,
}

impl Ticket {
    pub(super) fn job(&self) -> Option<&Job> {
        self.job.as_ref()
    }

    /// Hands the ticket its answer; it will not get a turn of its own any more.
    pub(super) fn answer(&self, answer: Result<Evidence>) {
        let mut seat = self.seat();
        if matches!(seat.phase, Phase::Waiting) {
            seat.phase = Phase::Answered(answer);
        }
        let waker = seat.waker.take();
        drop(seat);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Counts one more lost race: how many it has seen.
    pub(super) fn lose(&self) -> u32 {
        let mut seat = self.seat();
        seat.losses = seat.losses.saturating_add(1);
        seat.losses
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.seat().phase, Phase::Waiting)
    }

    /// The backend has answered a round of this ticket, whatever it said.
    pub(super) fn round_ended(&self) {
        for (lane, _) in &self.lanes {
            lane.0.rounds.fetch_add(1, Relaxed);
        }
    }

    /// Whether it has heard from the backend: it has lost races, or has seen rounds of its lanes answered.
    pub(super) fn has_heard(&self) -> bool {
        let is_answered = |(lane, before): &(Lane, (u64, u64))| lane.seen().0 != before.0;
        self.seat().losses > 0 || self.lanes.iter().any(is_answered)
    }

    /// Whether it was others who held this ticket up, and not a silent backend.
    pub(super) fn is_held_up(&self) -> bool {
        self.has_heard() || self.lanes.iter().any(|(lane, before)| lane.seen() != *before)
    }

    /// It has come to its end.
    pub(super) fn end(&self) {
        self.seat().has_ended = true;
    }

    /// Those behind a leader were held up by it if it goes away early; if its time is up, only if it knows
    /// that it was held up itself.
    fn tell_those_behind(&self) {
        let is_leading = {
            let seat = self.seat();
            seat.missing == 0 && matches!(seat.phase, Phase::Waiting)
        };
        let has_held_up = if is_over() { self.has_heard() } else { !self.seat().has_ended };
        if is_leading && has_held_up {
            for (lane, _) in &self.lanes {
                lane.0.gave_up.fetch_add(1, Relaxed);
            }
        }
    }

    /// Whether it has had its turn: then it lost races, else it only waited.
    pub(super) fn has_tried(&self) -> bool {
        let seat = self.seat();
        seat.losses > 0 || seat.missing == 0
    }

    fn seat(&self) -> MutexGuard<'_, Seat> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Called> {
        let mut seat = self.seat();
        match core::mem::replace(&mut seat.phase, Phase::Left) {
            Phase::Answered(answer) => return Poll::Ready(Called::Answered(answer)),
            other => seat.phase = other,
        }
        if seat.missing == 0 {
            return Poll::Ready(Called::Leading);
        }
        match &mut seat.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

/// Why a ticket was called.
pub(super) enum Called {
    /// It is at the front of all its lanes.
    Leading,
    /// A leader decided for it.
    Answered(Result<Evidence>),
}

/// A ticket in its lanes. Dropping it leaves them, wherever it stands.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    lanes: &'a Lanes,
    ticket: Arc<Ticket>,
    has_waited: bool,
}

impl Lanes {
    /// Takes a place in the lanes of these keys, which are distinct. `job` is only asked for when
    /// the ticket has to wait.
    pub(super) fn join(&self, keys: &[&str], job: impl FnOnce() -> Option<Job>) -> Turn<'_> {
        let mut lanes = self.lock();
        let mut missing = 0;
        let mut own = Vec::with_capacity(keys.len());
        for key in keys {
            let lane = match lanes.get_key_value(*key) {
                Some((lane, _)) => {
                    missing += 1;
                    lane.clone()
                }
                None => Lane::of(key),
            };
            let before = lane.seen();
            own.push((lane, before));
        }
        let ticket = Arc::new(Ticket {
            job: if missing > 0 { job() } else { None },
            lanes: own,
            seat: Mutex::new(Seat {
                phase: Phase::Waiting,
                missing,
                has_ended: false,
                losses: 0,
                waker: None,
            }),
        });
        for (lane, _) in &ticket.lanes {
            lanes.entry(lane.clone()).or_default().push_back(Arc::clone(&ticket));
        }
        drop(lanes);
        Turn { lanes: self, ticket, has_waited: missing > 0 }
    }

    /// How many keys are busy.
    #[cfg(test)]
    pub(super) fn busy(&self) -> usize {
        self.lock().len()
    }

    fn leave(&self, ticket: &Arc<Ticket>) {
        ticket.tell_those_behind();
        // Answers are dropped outside of the lock, as anything that runs foreign code.
        let old = core::mem::replace(&mut ticket.seat().phase, Phase::Left);
        drop(old);
        let mut woken = Vec::new();
        let mut lanes = self.lock();
        for (lane, _) in &ticket.lanes {
            let Some(waiting) = lanes.get_mut(lane) else {
                continue;
            };
            if !waiting.front().is_some_and(|front| Arc::ptr_eq(front, ticket)) {
                continue;
            }
            waiting.pop_front();
            woken.extend(call_next(waiting));
            if waiting.is_empty() {
                lanes.remove(lane);
            }
        }
        drop(lanes);
        woken.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Brings the first ticket that still waits to the front; its waker if it holds all its lanes now.
fn call_next(lane: &mut VecDeque<Arc<Ticket>>) -> Option<Waker> {
    while let Some(front) = lane.front() {
        let mut seat = front.seat();
        if matches!(seat.phase, Phase::Waiting) {
            seat.missing = seat.missing.saturating_sub(1);
            return if seat.missing == 0 { seat.waker.take() } else { None };
        }
        drop(seat);
        lane.pop_front();
    }
    None
}

impl Turn<'_> {
    /// Completes when the ticket leads or was answered.
    pub(super) async fn called(&self) -> Called {
        poll_fn(|context| self.ticket.poll(context)).await
    }

    /// Whether somebody was before it.
    pub(super) const fn has_waited(&self) -> bool {
        self.has_waited
    }

    pub(super) fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// The tickets right behind this one that may be decided with it, at most `max`.
    ///
    /// They stay in the lane, so a leader that goes away has nothing to give back. The first ticket
    /// that needs a turn of its own ends the row: nobody overtakes it.
    pub(super) fn followers(&self, max: usize) -> Vec<Arc<Ticket>> {
        let lanes = self.lanes.lock();
        let waiting = self.ticket.lanes.first().and_then(|(lane, _)| lanes.get(lane));
        let behind = waiting.into_iter().flatten().skip(1);
        behind
            .filter(|ticket| ticket.is_waiting())
            .take_while(|ticket| ticket.job.is_some())
            .take(max)
            .cloned()
            .collect()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.lanes.leave(&self.ticket);
    }
}
