//! Stops calling a server that does not answer, so that an outage costs nothing per request. It
//! keeps the reason of the outage for logs.
//!
//! A breaker counts events, not calls. All calls that one lost connection takes down bring one
//! number ([`Error::as_event`]) and are one event. So are calls without an answer that were under
//! way at the same time: one round that is not answered takes down all its members, and the calls
//! that wait behind it. It opens after some events in a row, or when the server has answered
//! nothing for so long that three calls in a row would have waited in vain. While it is open, one
//! call at a time tries whether the server is back.

use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use core::time::Duration;
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use crate::error::{Code, Error};
use crate::store::Jitter;
use crate::time::{Micros, micros_of};

/// When a breaker opens, and how often it then lets a call through.
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::limiter::BreakerConfig;
///
/// let breaker = BreakerConfig::default().failures(20).open_for(Duration::from_secs(1));
/// assert_eq!(breaker.failures, 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct BreakerConfig {
    /// Opens after this many outage events in a row; 0 turns the breaker off.
    pub failures: u32,
    /// Then one call tries whether the server is back, again and again after about this time. The
    /// time varies by a quarter, so that processes do not try at once.
    pub open_for: Duration,
}

impl BreakerConfig {
    /// Opens after this many outage events in a row; 0 turns the breaker off.
    pub const fn failures(mut self, failures: u32) -> Self {
        self.failures = failures;
        self
    }

    /// After about this time an open breaker lets one call through.
    pub const fn open_for(mut self, open_for: Duration) -> Self {
        self.open_for = open_for;
        self
    }
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_millis(100) }
    }
}

/// When a call began, when its outage was known, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) begun: Micros,
    pub(super) ended: Micros,
    pub(super) deadline: Micros,
}

impl Span {
    /// Whether the call was under way at an instant at which another outage was known. A clock that
    /// stepped back since must not merge all later events into that one. Timers are late: calls
    /// that began together end up to some milliseconds after their deadline, one after another.
    fn contains(&self, instant: Micros) -> bool {
        self.begun < instant && instant - self.begun <= self.deadline.saturating_mul(2)
    }

    /// How long a server may answer nothing. Silence is measured at the ends of calls, which are a
    /// deadline apart for one caller: half a deadline less than three makes the third of them
    /// count however early it is looked at.
    const fn silence(&self) -> Micros {
        self.deadline.saturating_mul(5) / 2
    }
}

/// The breaker of one server.
#[derive(Debug)]
pub(super) struct Breaker {
    threshold: u32,
    open_for: Micros,
    events_in_a_row: AtomicU32,
    /// The number of the last event that had one.
    last_event: AtomicU64,
    /// When the last event was known.
    last_event_at: AtomicU64,
    /// When the oldest call began that was not answered since the server answered; 0 for none.
    silent_since: AtomicU64,
    /// Until when no call passes; 0 while closed.
    open_until: AtomicU64,
    /// Whether a call is trying if the server is back.
    probing: AtomicBool,
    jitter: Jitter,
    /// Why the server did not answer the last time.
    why: Mutex<String>,
}

impl Breaker {
    pub(super) fn new(config: BreakerConfig) -> Self {
        Self {
            threshold: config.failures,
            open_for: micros_of(config.open_for),
            events_in_a_row: AtomicU32::new(0),
            last_event: AtomicU64::new(0),
            last_event_at: AtomicU64::new(0),
            silent_since: AtomicU64::new(0),
            open_until: AtomicU64::new(0),
            probing: AtomicBool::new(false),
            jitter: Jitter::new(),
            why: Mutex::default(),
        }
    }

    /// When calls may pass again.
    pub(super) fn closed_until(&self, now: Micros) -> Micros {
        let until = self.open_until.load(Acquire);
        if self.is_open(until, now) { until } else { now.saturating_add(self.open_for) }
    }

    /// A clock that stepped back must not keep the breaker open for longer than it may be.
    fn is_open(&self, until: Micros, now: Micros) -> bool {
        now < until && until - now <= self.open_for.saturating_add(self.open_for / 4)
    }

    /// Whether one call may be made, and whether it tries if the server is back.
    pub(super) fn enter(&self, now: Micros) -> Option<bool> {
        let open_until = self.open_until.load(Acquire);
        if open_until == 0 {
            return Some(false);
        }
        let is_probe = !self.is_open(open_until, now) && !self.probing.swap(true, AcqRel);
        is_probe.then_some(true)
    }

    /// A call that tried has ended.
    pub(super) fn end_probe(&self) {
        self.probing.store(false, Release);
    }

    /// The reason of the outage.
    pub(super) fn reason<'e>(&self, error: &'e Error) -> Cow<'e, str> {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        if why.is_empty() { Cow::Borrowed(error.message()) } else { Cow::Owned(why.clone()) }
    }

    /// The server answered.
    pub(super) fn answered(&self) {
        // Read first: while all is well, callers share this line without writing it.
        if self.events_in_a_row.load(Relaxed) != 0 {
            self.events_in_a_row.store(0, Relaxed);
        }
        if self.silent_since.load(Relaxed) != 0 {
            self.silent_since.store(0, Relaxed);
        }
        if self.open_until.load(Relaxed) != 0 {
            self.open_until.store(0, Release);
        }
    }

    /// The server did not answer a call, for this reason.
    pub(super) fn failed(&self, is_probe: bool, span: Span, why: &Error) {
        self.remember(why);
        // Before the event is counted, which moves the last one.
        let is_silent = why.code() == Code::Timeout && self.is_silent(span);
        let events = match self.is_new_event(span, why) {
            true => self.events_in_a_row.fetch_add(1, Relaxed).saturating_add(1),
            false => self.events_in_a_row.load(Relaxed),
        };
        if self.threshold > 0 && (is_probe || events >= self.threshold || is_silent) {
            // A probe that waited for its deadline has waited long enough.
            let from = if is_probe { span.begun } else { span.ended };
            self.open_until.store(from.saturating_add(self.varied()).max(1), Release);
        }
    }

    fn remember(&self, error: &Error) {
        let mut why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        if *why != error.message() {
            why.clear();
            why.push_str(error.message());
        }
    }

    /// Whether the server has answered nothing for too long, with calls under way all the time.
    fn is_silent(&self, span: Span) -> bool {
        let last = self.last_event_at.load(Relaxed);
        let since = self.silent_since.load(Relaxed);
        let is_gap = span.begun.saturating_sub(last) > span.deadline || span.ended < since;
        if since == 0 || is_gap {
            // If another call has set it meanwhile, that one began at about the same time.
            self.silent_since.store(span.begun.max(1), Relaxed);
            return false;
        }
        span.ended.saturating_sub(since) >= span.silence()
    }

    fn is_new_event(&self, span: Span, why: &Error) -> bool {
        if let Some(number) = why.event() {
            let is_new = self.last_event.fetch_max(number, Relaxed) < number;
            if is_new {
                self.last_event_at.store(span.ended, Relaxed);
            }
            return is_new;
        }
        let next = |last| (!span.contains(last)).then_some(span.ended);
        self.last_event_at.fetch_update(Relaxed, Relaxed, next).is_ok()
    }

    /// The time between two probes: that of the configuration, three to five quarters of it.
    fn varied(&self) -> Micros {
        let half = (self.open_for / 2).max(1);
        (self.open_for - self.open_for / 4).saturating_add(self.jitter.next() % half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_began_together_are_one_event_although_timers_are_late() {
        let (breaker, why) = (Breaker::new(BreakerConfig::default()), silence());
        for call in 0..100 {
            let begun = 1_000_000 + call;
            breaker.failed(false, Span { begun, ended: 1_103_000, deadline: 100_000 }, &why);
        }
        assert_eq!(breaker.enter(1_103_000), Some(false));
    }

    fn silence() -> Error {
        Error::new(Code::Timeout, "silent")
    }
}
