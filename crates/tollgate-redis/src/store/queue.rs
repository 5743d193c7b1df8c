//! Waiting charges: who sends them, and how each gets its answer.
//!
//! The first caller goes alone and at once. Those who arrive while two rounds are under way (the [`Gate`]
//! counts) wait and form the next round together, so that a busy server is asked in few large calls and
//! an idle one without delay. Rounds with several callers run on their own where the transport can
//! spawn: then nobody's going away concerns anybody else; and before the round after a large one is
//! taken, those whom that one has answered run, and many of them come back in time for it.

use core::future::poll_fn;
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_core::store::patience::{Progress, is_over, is_scarce};
use tollgate_core::{Code, Error};

use super::gate::Gate;
use super::items::{Answer, Item};
use super::place::Place;
use crate::transport::Sharing;

/// Charges in one round.
pub(super) const ROUND_MAX: usize = 1_000;

/// So many in one round are a crowd.
pub(super) const CROWD: usize = 8;
/// So many are worth a round of their own, however large the other one is.
const SECOND_MAX: usize = 32;

/// Queues of the slots of a cluster, which share them, so few that callers on different keys hardly
/// ever meet.
const SLOT_LANES: usize = 4_096;
/// Queues of districts. More nodes than these share them.
const DISTRICT_LANES: usize = 256;
/// Slots of a cluster.
const SLOTS: usize = 16_384;

/// The queue, or, where not all keys may share a call, one for those that may: a round over several
/// nodes would take as long as the slowest of them, and save nothing.
#[derive(Debug)]
pub(super) struct Queues {
    first: (Gate, Queue),
    gates: Box<[Gate]>,
    queues: Box<[Queue]>,
}

/// Which queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane(usize);

impl Queues {
    pub(super) fn new(sharing: Sharing) -> Self {
        let others = match sharing {
            Sharing::AnyKeys => 0,
            Sharing::SameSlot => SLOT_LANES + DISTRICT_LANES - 1,
        };
        Self {
            first: Default::default(),
            gates: (0..others).map(|_| Gate::default()).collect(),
            queues: (0..others).map(|_| Queue::default()).collect(),
        }
    }

    /// The queue of a place. Slots share one with their neighbours, for they are on one node: a node that
    /// hangs holds up nobody who asks another.
    pub(super) fn lane(&self, place: Place) -> Lane {
        Lane(match place {
            Place::Anywhere => 0,
            Place::Slot(slot) => usize::from(slot) * SLOT_LANES / SLOTS,
            Place::District(district) => SLOT_LANES + usize::from(district) % DISTRICT_LANES,
        })
    }

    pub(super) fn at(&self, lane: Lane) -> Line<'_> {
        let other = self.gates.get(lane.0).zip(self.queues.get(lane.0));
        let (gate, queue) = other.unwrap_or((&self.first.0, &self.first.1));
        Line { gate, queue }
    }
}

/// A queue and its gate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'q> {
    gate: &'q Gate,
    queue: &'q Queue,
}

/// The charges of all callers that wait.
#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    progress: Progress,
}

#[derive(Debug, Default)]
struct Waiting {
    tickets: VecDeque<Arc<Ticket>>,
    /// How many are in the large round under way, if there is one.
    crowd: usize,
}

/// One caller's charge.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) item: Item,
    seat: Mutex<Seat>,
}

#[derive(Debug)]
enum Seat {
    Waiting(Option<Waker>),
    Answered(Answer),
    Left,
}

/// What a caller is to do.
#[derive(Debug)]
pub(super) enum Turn {
    Answered(Answer),
    /// Send these, one of which may be its own.
    Lead(Vec<Arc<Ticket>>),
    /// Leave it to the next: there is too little time left to send anything.
    TooLate,
}

impl Ticket {
    pub(super) fn new(item: Item) -> Arc<Self> {
        Arc::new(Self { item, seat: Mutex::new(Seat::Waiting(None)) })
    }

    fn seat(&self) -> MutexGuard<'_, Seat> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the caller its answer, once.
    pub(super) fn answer(&self, answer: Answer) {
        let mut seat = self.seat();
        let Seat::Waiting(waker) = &mut *seat else { return };
        let waker = waker.take();
        *seat = Seat::Answered(answer);
        drop(seat);
        waker.into_iter().for_each(Waker::wake);
    }

    fn is_waiting(&self) -> bool {
        matches!(*self.seat(), Seat::Waiting(_))
    }

    fn wake(&self) {
        let waker = match &mut *self.seat() {
            Seat::Waiting(waker) => waker.take(),
            _ => None,
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// The caller is gone: what was not sent yet is not sent. Whether it still waited.
    pub(super) fn leave(&self) -> bool {
        matches!(core::mem::replace(&mut *self.seat(), Seat::Left), Seat::Waiting(_))
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Answer> {
        let mut seat = self.seat();
        match core::mem::replace(&mut *seat, Seat::Left) {
            Seat::Answered(answer) => Poll::Ready(answer),
            Seat::Waiting(_) => {
                *seat = Seat::Waiting(Some(context.waker().clone()));
                Poll::Pending
            }
            Seat::Left => Poll::Pending,
        }
    }
}

impl<'q> Line<'q> {
    /// Whether a caller may fly alone: nobody waits, and another may fly.
    pub(super) fn lift_off_alone(self) -> bool {
        self.gate.lift_off_alone()
    }

    /// Rounds that the server answered, for those who wait.
    pub(super) fn progress(self) -> &'q Progress {
        &self.queue.progress
    }

    pub(super) fn join(self, ticket: Arc<Ticket>) {
        let mut waiting = self.lock();
        waiting.tickets.push_back(ticket);
        self.gate.set_awaited(true);
    }

    /// The server has answered a round: those who wait shall know.
    pub(super) fn was_heard(self) {
        if self.gate.is_awaited() {
            self.queue.progress.round_ended();
        }
    }

    /// Completes when the caller has its answer or is to lead. `flies_itself` if what it leads ends with
    /// it, so that it must have the time.
    pub(super) async fn turn(self, ticket: &Ticket, flies_itself: bool) -> Turn {
        poll_fn(|context| {
            if let Poll::Ready(answer) = ticket.poll(context) {
                return Poll::Ready(Turn::Answered(answer));
            }
            if flies_itself && is_scarce() && self.may_lift_off(&self.lock()) {
                return Poll::Ready(Turn::TooLate);
            }
            match self.lift_off() {
                Some(round) => Poll::Ready(Turn::Lead(round)),
                None => Poll::Pending,
            }
        })
        .await
    }

    fn may_lift_off(self, waiting: &Waiting) -> bool {
        self.gate.is_open() && waiting.is_worth_a_round(self.gate.flights())
    }

    /// The next round, if another may fly.
    fn lift_off(self) -> Option<Vec<Arc<Ticket>>> {
        let mut waiting = self.lock();
        if !self.may_lift_off(&waiting) {
            return None;
        }
        // Before those who wait are gone, after which anybody may fly.
        self.gate.lift_off();
        let round = self.take_round(&mut waiting);
        if round.is_none() {
            self.gate.land();
        }
        round
    }

    /// The round after one of this size that has landed, for whoever flew that one.
    pub(super) fn go_on(self, landed: usize) -> Option<Vec<Arc<Ticket>>> {
        let mut waiting = self.lock();
        self.end_crowd(&mut waiting, landed);
        let others = self.gate.flights().saturating_sub(1);
        // Else whoever lands last takes them along.
        let is_worth_it = waiting.is_worth_a_round(others);
        let round = if is_worth_it { self.take_round(&mut waiting) } else { None };
        if round.is_none() {
            self.gate.land();
        }
        round
    }

    fn take_round(self, waiting: &mut Waiting) -> Option<Vec<Arc<Ticket>>> {
        let round = waiting.round();
        if round.len() >= CROWD {
            waiting.crowd = round.len();
            self.gate.set_crowded(true);
        }
        self.gate.set_awaited(!waiting.tickets.is_empty());
        (!round.is_empty()).then_some(round)
    }

    fn end_crowd(self, waiting: &mut Waiting, landed: usize) {
        if landed == waiting.crowd {
            waiting.crowd = 0;
            self.gate.set_crowded(false);
        }
    }

    /// A round of this size has landed, and nobody waits for another; `false` if somebody does.
    pub(super) fn land_for_good(self, landed: usize) -> bool {
        if landed < CROWD && self.gate.land_alone() {
            return true;
        }
        let mut waiting = self.lock();
        let is_over = waiting.tickets.is_empty();
        if is_over {
            self.end_crowd(&mut waiting, landed);
            self.gate.land();
        }
        is_over
    }

    /// A round of this size has landed and its leader leads no more: the first who waits may.
    pub(super) fn land(self, landed: usize) {
        let mut waiting = self.lock();
        self.end_crowd(&mut waiting, landed);
        self.gate.land();
        self.wake_first(waiting);
    }

    /// Lets the first who waits look whether it may lead: somebody who was told to has left.
    pub(super) fn call_next(self) {
        self.wake_first(self.lock());
    }

    fn wake_first(self, mut waiting: MutexGuard<'_, Waiting>) {
        waiting.forget_those_who_left();
        self.gate.set_awaited(!waiting.tickets.is_empty());
        let first = waiting.tickets.front().cloned();
        drop(waiting);
        first.into_iter().for_each(|ticket| ticket.wake());
    }

    fn lock(self) -> MutexGuard<'q, Waiting> {
        self.queue.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Whether those who wait should fly beside so many other rounds. Beside a large one, a small one
    /// would cost a call of its own and take its callers away from the next.
    fn is_worth_a_round(&self, others: u8) -> bool {
        others == 0 || self.tickets.len() >= (self.crowd / 2).min(SECOND_MAX)
    }

    /// So that whoever is first can be woken.
    fn forget_those_who_left(&mut self) {
        while self.tickets.front().is_some_and(|ticket| !ticket.is_waiting()) {
            self.tickets.pop_front();
        }
    }

    /// Takes those who still wait, in order.
    fn round(&mut self) -> Vec<Arc<Ticket>> {
        let mut round = Vec::with_capacity(self.tickets.len().min(ROUND_MAX));
        while round.len() < ROUND_MAX {
            let Some(ticket) = self.tickets.pop_front() else { break };
            if ticket.is_waiting() {
                round.push(ticket);
            }
        }
        round
    }
}

/// A round under way: whoever ends it early leaves nobody without an answer.
#[derive(Debug)]
pub(super) struct Round(pub(super) Vec<Arc<Ticket>>);

impl Round {
    /// Hands one of them its answer.
    pub(super) fn answer(&self, index: usize, answer: Answer) {
        if let Some(ticket) = self.0.get(index) {
            ticket.answer(answer);
        }
    }

    /// These of them, as far as they still wait.
    pub(super) fn part(&self, indices: impl Iterator<Item = usize>) -> Self {
        let tickets = indices.filter_map(|index| self.0.get(index));
        Self(tickets.filter(|ticket| ticket.is_waiting()).cloned().collect())
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        // An outage only if it waited in vain: anybody can make callers go away.
        let code = if is_over() { Code::StoreUnavailable } else { Code::ConflictExhausted };
        for ticket in self.0.iter().filter(|ticket| ticket.is_waiting()) {
            let message = "the caller that sent this charge went away; it may be spent";
            ticket.answer(Answer::Failed(Error::new(code, message)));
        }
    }
}

#[cfg(test)]
mod tests;
