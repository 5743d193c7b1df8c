//! What a caller hands to a store with each call, and what the call reports back: time source,
//! deadline, facts.
//!
//! A limiter waits for a store until a deadline. When the deadline expires it drops the call, and
//! an answer is missing for one of two reasons. Either the backend did not answer, which is an
//! outage and is decided by the outage mode of the limit; or other callers and writers were served
//! first, which an attacker can cause and which must never admit anything. The limiter does not
//! guess: the store and the combiner record facts in the [`CallFacts`] of the call, and
//! [`CallFacts::expired`] classifies by them:
//!
//! | fact | code | charged? |
//! |---|---|---|
//! | sent and not answered, or nothing recorded | `timeout` | unknown |
//! | a race was lost, or the backend reported a lock timeout | `conflict_exhausted` | no |
//! | queued, and no round of its queue was answered since it joined | `timeout` | no |
//! | queued, and rounds were answered | `queue_full` | no |
//!
//! Work that goes on without its caller may have charged a part of an admission, which it undoes
//! ([`compensate`](super::compensate)). Then the code is the same, so that nothing is admitted
//! because others delay it, but the error is not marked as [`not_sent`](Error::not_sent), and its
//! text says that a part is being undone; without contention the outcome is unknown.
//!
//! A store whose calls neither wait for each other nor are repeated records nothing: for such a
//! store, every call that reaches its deadline is a `timeout` with an unknown outcome.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::TimeSource;
use crate::clock::Clock;
use crate::error::{Code, Error};
use crate::time::Micros;

/// The time source and the deadline of one call, and where the call records its facts.
///
/// Cheap to copy. Stores pass it on to whatever they call, as it is.
///
/// ```
/// use tollgate_core::store::{CallContext, CallFacts};
///
/// // A test or a tool: a given reading, no deadline, nothing recorded.
/// let cx = CallContext::at(1_700_000_000_000_000);
/// cx.sent();
///
/// // A limiter: classifies a call that did not answer in time.
/// let facts = CallFacts::new();
/// let cx = cx.with_facts(&facts);
/// cx.sent();
/// cx.lost_race();
/// assert_eq!(facts.expired().code().as_str(), "conflict_exhausted");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CallContext<'a> {
    time: TimeSource,
    deadline: Option<Deadline<'a>>,
    facts: Option<&'a CallFacts>,
}

/// When a caller stops waiting.
#[derive(Clone, Copy, Debug)]
struct Deadline<'a> {
    clock: &'a dyn Clock,
    at: Micros,
}

impl<'a> CallContext<'a> {
    /// A context without a deadline that records nothing.
    #[must_use]
    pub const fn new(time: TimeSource) -> Self {
        Self { time, deadline: None, facts: None }
    }

    /// The caller's reading decides. No deadline; nothing is recorded.
    #[must_use]
    pub const fn at(now: Micros) -> Self {
        Self::new(TimeSource::Given(now))
    }

    /// The store's own clock decides. No deadline; nothing is recorded.
    #[must_use]
    pub const fn store_clock() -> Self {
        Self::new(TimeSource::StoreClock)
    }

    /// The same context with another time source.
    #[must_use]
    pub const fn with_time(mut self, time: TimeSource) -> Self {
        self.time = time;
        self
    }

    /// The same context with a deadline: the caller stops waiting once `clock` has reached `at`.
    #[must_use]
    pub const fn with_deadline(mut self, clock: &'a dyn Clock, at: Micros) -> Self {
        self.deadline = Some(Deadline { clock, at });
        self
    }

    /// The same context, recording in `facts`.
    #[must_use]
    pub const fn with_facts(mut self, facts: &'a CallFacts) -> Self {
        self.facts = Some(facts);
        self
    }

    /// Which clock decides.
    #[must_use]
    pub const fn time(&self) -> TimeSource {
        self.time
    }

    /// How long the caller still waits, by its clock; `None` without a deadline.
    #[must_use]
    pub fn time_left(&self) -> Option<Micros> {
        self.deadline.map(|deadline| deadline.at.saturating_sub(deadline.clock.now()))
    }

    /// Records that nothing is under way that could charge: the call is queued, reads, or waits
    /// between two attempts.
    pub fn waiting(&self) {
        self.record(|facts| facts.set(WAITING, 0));
    }

    /// Records that a request which may charge was sent. Record it before the request can leave
    /// this process.
    pub fn sent(&self) {
        self.record(|facts| facts.set(SENT, 0));
    }

    /// Records that the backend answered the last attempt with a lost race or a lock timeout: the
    /// attempt has charged nothing.
    pub fn lost_race(&self) {
        self.record(|facts| facts.set(WAITING, LOST));
    }

    /// Records that the backend served others while this call was waiting for its turn.
    pub fn others_served(&self) {
        self.record(|facts| facts.set(facts.0.load(Relaxed) & PHASE, SERVED));
    }

    /// Records the facts of work that was done for this call under a context of its own, such as
    /// work that goes on when the caller is cancelled.
    pub fn merge(&self, facts: &CallFacts) {
        let merged = facts.0.load(Relaxed);
        self.record(|own| own.set(merged & PHASE, merged & !PHASE));
    }

    /// Records that a part is charged, and that work which goes on without the caller undoes it.
    pub(super) fn undoing(&self) {
        self.record(|facts| facts.set(facts.0.load(Relaxed) & PHASE, UNDOING));
    }

    /// The error of this call if its deadline expires now, by the facts that it has recorded.
    #[must_use]
    pub fn expired(&self) -> Error {
        self.facts.map_or_else(|| CallFacts::new().expired(), CallFacts::expired)
    }

    fn record(&self, fact: impl FnOnce(&CallFacts)) {
        if let Some(facts) = self.facts {
            fact(facts);
        }
    }
}

impl From<TimeSource> for CallContext<'_> {
    fn from(time: TimeSource) -> Self {
        Self::new(time)
    }
}

/// What is known about a call: written by the store, read by the limiter when the deadline has
/// expired and the call was dropped.
#[derive(Debug, Default)]
pub struct CallFacts(AtomicU8);

/// The two low bits hold the phase.
const PHASE: u8 = 0b11;
/// Nothing was recorded: the outcome is unknown.
const UNRECORDED: u8 = 0;
const WAITING: u8 = 1;
const SENT: u8 = 2;
const LOST: u8 = 1 << 2;
const SERVED: u8 = 1 << 3;
/// An element of a batch that the store has begun.
const BEGUN: u8 = 1 << 4;
/// A part is charged, and is being undone.
const UNDOING: u8 = 1 << 5;

impl CallFacts {
    /// Nothing is known.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU8::new(UNRECORDED))
    }

    fn set(&self, phase: u8, flags: u8) {
        // A call has one writer at a time: the future that runs it, or the drop of that future.
        self.0.store((self.0.load(Relaxed) & !PHASE) | phase | flags, Relaxed);
    }

    fn has(&self, bit: u8) -> bool {
        self.0.load(Relaxed) & bit != 0
    }

    pub(super) fn begin(&self) {
        self.set(UNRECORDED, BEGUN);
    }

    pub(crate) fn reset(&self) {
        self.0.store(UNRECORDED, Relaxed);
    }

    pub(super) fn has_begun(&self) -> bool {
        self.has(BEGUN)
    }

    #[cfg(test)]
    pub(crate) fn is_recorded(&self) -> bool {
        self.0.load(Relaxed) & PHASE != UNRECORDED
    }

    /// The error of a call that did not answer until its deadline. Marked as not sent where it is
    /// known that nothing was charged.
    #[must_use]
    pub fn expired(&self) -> Error {
        let is_waiting = self.0.load(Relaxed) & PHASE == WAITING;
        let (code, why) = if is_waiting && self.has(LOST) {
            (Code::ConflictExhausted, "other writers held the keys until the deadline")
        } else if is_waiting && self.has(SERVED) {
            (Code::QueueFull, "other callers were served until the deadline")
        } else {
            (Code::Timeout, "the store did not answer within the deadline")
        };
        let is_undoing = self.has(UNDOING);
        let rest = match code {
            _ if is_waiting && !is_undoing => "nothing was charged",
            Code::Timeout => "the charge may be spent",
            _ => "a part of it was charged and is being undone",
        };
        let error = Error::new(code, format!("{why}; {rest}")).made_here();
        if is_waiting && !is_undoing { error.not_sent() } else { error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    fn classified(record: impl FnOnce(CallContext<'_>)) -> (Code, bool) {
        let facts = CallFacts::new();
        record(CallContext::at(0).with_facts(&facts));
        let error = facts.expired();
        (error.code(), error.is_not_sent())
    }

    #[test]
    fn a_call_is_classified_by_its_facts() {
        assert_eq!(classified(|_| {}), (Code::Timeout, false), "nothing recorded");
        assert_eq!(classified(|cx| cx.sent()), (Code::Timeout, false));
        assert_eq!(classified(|cx| cx.waiting()), (Code::Timeout, true));
        let served = |cx: CallContext<'_>| {
            cx.waiting();
            cx.others_served();
        };
        assert_eq!(classified(served), (Code::QueueFull, true));
        let lost = |cx: CallContext<'_>| {
            cx.sent();
            cx.others_served();
            cx.lost_race();
        };
        assert_eq!(classified(lost), (Code::ConflictExhausted, true));
        let sent_again = |cx: CallContext<'_>| {
            lost(cx);
            cx.sent();
        };
        assert_eq!(classified(sent_again), (Code::Timeout, false), "the outcome is unknown");
    }

    #[test]
    fn a_call_of_which_a_part_is_charged_is_not_taken_for_one_that_charged_nothing() {
        let silent = |cx: CallContext<'_>| {
            cx.waiting();
            cx.undoing();
        };
        assert_eq!(classified(silent), (Code::Timeout, false));
        let served = |cx: CallContext<'_>| {
            cx.waiting();
            cx.others_served();
            cx.undoing();
        };
        assert_eq!(classified(served), (Code::QueueFull, false));
        let lost = |cx: CallContext<'_>| {
            cx.lost_race();
            cx.undoing();
        };
        assert_eq!(classified(lost), (Code::ConflictExhausted, false));
    }

    #[test]
    fn facts_of_detached_work_are_merged() {
        let work = CallFacts::new();
        CallContext::at(0).with_facts(&work).lost_race();
        assert_eq!(classified(|cx| cx.merge(&work)), (Code::ConflictExhausted, true));
        CallContext::at(0).with_facts(&work).sent();
        assert_eq!(classified(|cx| cx.merge(&work)), (Code::Timeout, false));
    }

    #[test]
    fn the_time_left_is_read_from_the_clock_of_the_deadline() {
        let clock = ManualClock::at(70);
        let cx = CallContext::store_clock().with_deadline(&clock, 100);
        assert_eq!((cx.time(), cx.time_left()), (TimeSource::StoreClock, Some(30)));
        clock.set(130);
        assert_eq!(cx.time_left(), Some(0));
        assert_eq!(CallContext::at(5).time_left(), None);
    }
}
