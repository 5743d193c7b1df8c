//! What happens when the store cannot answer: deadline, breaker, bounded queue, and the failure
//! modes open, closed and local. All of it is here, once; servers and middlewares only configure it.
//!
//! Only outages (`store_unavailable`, `timeout`) are decided by a mode. Contention, full queues and
//! corrupt states never fail open: an attacker could cause them.

mod breaker;
mod deadline;
mod local;

use core::future::Future;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;

use super::builder::ClockSource;
use super::observer::{Counter, Degradation, Observer, Stats};
use crate::charge::{Admission, Charge, Limit};
use crate::decision::{Decision, Degraded};
use crate::error::{Code, Error, Result};
use crate::state::State;
use crate::store::Outcome;
use crate::time::{MICROS_PER_MS, Micros, Now, to_ms_up};

use breaker::Breaker;
use local::Local;

pub use breaker::BreakerConfig;
pub use local::Share;

/// How long the store may take unless told otherwise.
const DEADLINE: Micros = 100_000;
/// How many calls may wait at once unless told otherwise.
const MAX_IN_FLIGHT: usize = 10_000;
/// Clocks that differ by less are taken to agree.
const CLOCKS_AGREE: Micros = 1_000_000;

#[derive(Debug)]
pub(super) struct FailurePolicy {
    deadline: Micros,
    max_in_flight: usize,
    in_flight: AtomicUsize,
    breaker: Breaker,
    local: Local,
    observer: Option<Arc<dyn Observer>>,
    open: Counter,
    closed: Counter,
    by_process: Counter,
    failures: Counter,
    clock_behind: Counter,
}

impl Default for FailurePolicy {
    fn default() -> Self {
        Self {
            deadline: DEADLINE,
            max_in_flight: MAX_IN_FLIGHT,
            in_flight: AtomicUsize::new(0),
            breaker: Breaker::new(BreakerConfig::default()),
            local: Local::default(),
            observer: None,
            open: Counter::default(),
            closed: Counter::default(),
            by_process: Counter::default(),
            failures: Counter::default(),
            clock_behind: Counter::default(),
        }
    }
}

impl FailurePolicy {
    pub(super) fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = u64::try_from(deadline.as_micros()).unwrap_or(u64::MAX);
    }

    pub(super) fn set_max_in_flight(&mut self, calls: usize) {
        self.max_in_flight = calls;
    }

    pub(super) fn set_breaker(&mut self, config: BreakerConfig) {
        self.breaker = Breaker::new(config);
    }

    pub(super) fn set_share(&mut self, share: Share) {
        self.local.set_share(share);
    }

    pub(super) fn set_observer(&mut self, observer: Arc<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// Calls the store: within the deadline, unless the breaker is open or too many calls wait; at
    /// most once more, and only if nothing was sent the first time.
    pub(super) async fn call<T, F>(
        &self,
        clock: &ClockSource,
        operation: impl Fn() -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let _place = Place::take(&self.in_flight, self.max_in_flight)?;
        let clock = clock.as_dyn();
        let pass = self.breaker.pass(clock.now())?;
        let until = clock.now().saturating_add(self.deadline);
        let mut answer = deadline::within(clock, until, operation()).await;
        if matches!(&answer, Err(error) if error.is_outage() && error.is_unsent())
            && clock.now() < until
        {
            answer = deadline::within(clock, until, operation()).await;
        }
        let outage = matches!(&answer, Err(error) if error.is_outage());
        if outage {
            self.failures.count(clock.now());
        }
        pass.report(!outage, clock.now());
        answer
    }

    /// Learns from an answer of the store what this process may grant alone.
    pub(super) fn observe(&self, admission: &Admission<'_>, outcome: &Outcome, now: Micros) {
        if outcome.replayed.is_some() {
            return;
        }
        self.local.observe(admission, outcome, now);
        for (charge, before) in admission.charges.iter().zip(&outcome.before) {
            if let Some(before) = before {
                self.watch_clock(charge, before, outcome.now);
            }
        }
    }

    /// Forgets what this process may grant alone.
    pub(super) fn forget(&self, limit: &Limit, subject: &str) {
        self.local.forget(limit, subject);
    }

    /// Decides by the failure mode. The strictest mode of the limits that were asked wins.
    pub(super) fn decide_without_store(
        &self,
        admission: &Admission<'_>,
        error: &Error,
        now: Micros,
    ) -> Result<Decision> {
        let modes = || admission.charges.iter().map(|charge| charge.limit.outage_mode());
        if modes().any(|mode| mode == Degraded::Closed) {
            return Ok(self.refuse(admission, error, now));
        }
        if modes().any(|mode| mode == Degraded::Local) {
            let Ok(decision) = self.local.decide(admission, now) else {
                // No share of this algorithm can be made: the safe answer is the closed one.
                return Ok(self.refuse(admission, error, now));
            };
            self.tell(&self.by_process, Degraded::Local, error.code(), now);
            return Ok(decision.degraded(Degraded::Local));
        }
        self.tell(&self.open, Degraded::Open, error.code(), now);
        let decision = Decision::allowed(ceiling(admission), 0, to_ms_up(now));
        Ok(decision.degraded(Degraded::Open))
    }

    fn refuse(&self, admission: &Admission<'_>, error: &Error, now: Micros) -> Decision {
        self.tell(&self.closed, Degraded::Closed, error.code(), now);
        let wait = to_ms_up(self.breaker.closed_until(now).saturating_sub(now));
        Decision::denied(ceiling(admission), 0, to_ms_up(now), wait).degraded(Degraded::Closed)
    }

    fn tell(&self, counter: &Counter, mode: Degraded, code: Code, now: Micros) {
        if let (Some(decisions), Some(observer)) = (counter.count(now), &self.observer) {
            observer.degraded(&Degradation { mode, code, decisions });
        }
    }

    /// Notices keys that a clock ahead of this one has charged: they are frozen until it catches up.
    fn watch_clock(&self, charge: &Charge<'_>, before: &State, now: Now) {
        let rule = charge.rule();
        if before.shape.family() != rule.shape().family() {
            return;
        }
        let ahead = rule.debt(&before.words, now).seen.saturating_sub(now.effective());
        if ahead > CLOCKS_AGREE
            && let (Some(_), Some(observer)) =
                (self.clock_behind.count(now.reading()), &self.observer)
        {
            observer.clock_behind(charge.limit.policy().as_str(), ahead / MICROS_PER_MS);
        }
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            degraded_open: self.open.total(),
            degraded_closed: self.closed.total(),
            degraded_local: self.by_process.total(),
            store_failures: self.failures.total(),
            breaker_rejections: self.breaker.rejections(),
            clock_behind: self.clock_behind.total(),
        }
    }
}

fn ceiling(admission: &Admission<'_>) -> u64 {
    admission.charges.iter().map(|charge| charge.rule().ceiling()).min().unwrap_or(0)
}

/// A place in the bounded queue, given back when the call ends or is dropped.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(in_flight: &'a AtomicUsize, max: usize) -> Result<Self> {
        let place = Self(in_flight);
        if in_flight.fetch_add(1, Relaxed) < max {
            return Ok(place);
        }
        Err(Error::new(Code::QueueFull, "too many calls are waiting for the store"))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
