//! What happens when the store cannot answer: deadline, breaker, a bound on calls, and the failure
//! modes open, closed and local. All of it is here, once; servers and middlewares only configure
//! it.
//!
//! Only outages (`store_unavailable`, `timeout`) are decided by a mode. Contention, full queues and
//! corrupt states never fail open: an attacker could cause them.

mod answer;
mod batch;
mod breaker;
mod breakers;
mod deadline;
mod local;
#[cfg(test)]
mod tests;

use core::future::Future;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use super::builder::ClockSource;
use super::derive;
use super::observer::{Counter, Degradation, Observer, Stats};
use crate::algorithm::{Description, Renewal};
use crate::charge::{Admission, Charge};
use crate::cost::Cost;
use crate::decision::{Decision, OutageMode, Verdict};
use crate::error::{Code, Error, Result};
use crate::key::{Key, Name};
use crate::limit::Limit;
use crate::settled::Settlement;
use crate::state::State;
use crate::store::{CallContext, CallFacts, Endpoint, Evidence, LastAnswer, Store, TimeSource};
use crate::time::{MICROS_PER_MS, Micros, Now, micros_of, to_ms_up};

use answer::{StoreAnswer, outcome_of};
use breaker::Span;
use local::Local;

pub use breaker::BreakerConfig;
pub(super) use breakers::Breakers;
pub use local::Share;

/// How long the store may take by default.
const DEADLINE: Micros = 100_000;
/// How many calls may wait at once by default.
const MAX_IN_FLIGHT: usize = 10_000;
/// Clocks that differ by less are taken to agree.
const CLOCKS_AGREE: Micros = 1_000_000;

#[derive(Debug)]
pub(super) struct FailurePolicy {
    pub(super) deadline: Micros,
    pub(super) max_in_flight: usize,
    in_flight: AtomicUsize,
    pub(super) breakers: Breakers,
    pub(super) local: Local,
    pub(super) observer: Option<Arc<dyn Observer>>,
    /// Decisions without the store, by mode.
    degraded: [Counter; 3],
    failures: Counter,
    clock_behind: Counter,
    /// Whether a charge was settled for more than it took.
    has_charged_debts: AtomicBool,
}

impl Default for FailurePolicy {
    fn default() -> Self {
        Self {
            deadline: DEADLINE,
            max_in_flight: MAX_IN_FLIGHT,
            in_flight: AtomicUsize::new(0),
            breakers: Breakers::new(BreakerConfig::default()),
            local: Local::default(),
            observer: None,
            degraded: Default::default(),
            failures: Counter::default(),
            clock_behind: Counter::default(),
            has_charged_debts: AtomicBool::new(false),
        }
    }
}

impl FailurePolicy {
    /// Calls the store, unless the breaker of one of its servers is open or too many calls wait.
    /// `late` is the last answer of these servers, if it came too late.
    pub(super) async fn call<'c, T, F>(
        &'c self,
        (clock, now): (&'c ClockSource, Micros),
        (time, facts): (TimeSource, &'c CallFacts),
        (endpoints, late): (
            impl IntoIterator<Item = Endpoint>,
            impl FnOnce() -> Option<LastAnswer>,
        ),
        operation: impl Fn(CallContext<'c>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let _counted = self.count_in()?;
        let passes = self.breakers.pass(endpoints, now)?;
        let expired = || Err(facts.expired());
        let mut attempted = self.attempt((clock, now), (time, facts), operation, expired).await;
        attempted.answer = attempted.answer.map_err(|error| self.named(error, late));
        passes.report(outcome_of(&attempted.answer), attempted.span);
        attempted.answer
    }

    /// The last answer of the servers of these keys, if it came later than a call may wait.
    pub(super) fn late_answer<'k, S: Store>(
        &self,
        store: &S,
        keys: impl IntoIterator<Item = Key<'k>>,
    ) -> Option<LastAnswer> {
        let is_late = |last: &LastAnswer| micros_of(last.took) > self.deadline;
        keys.into_iter().find_map(|key| store.last_answer(key).filter(is_late))
    }

    /// The error of a call: if its deadline has expired and its server answers, but too late, it
    /// says so.
    fn named(&self, error: Error, late: impl FnOnce() -> Option<LastAnswer>) -> Error {
        if error.code() != Code::Timeout || !error.is_made_here() {
            return error;
        }
        let Some(LastAnswer { server, took }) = late() else { return error };
        let rest =
            if error.is_not_sent() { "nothing was charged" } else { "the charge may be spent" };
        let (took, deadline) = (to_ms_up(micros_of(took)), to_ms_up(self.deadline));
        error.with_message(format!(
            "{server} is too slow: it answered after {took} ms, the deadline is {deadline} ms; \
             {rest}"
        ))
    }

    /// Calls the store within the deadline; at most once more, and only if nothing was sent the
    /// first time. `expired` makes the answer of a call whose deadline has expired, from the facts
    /// that the call has recorded.
    ///
    /// A call that is answered at once reads no clock: `now` is what it read last.
    async fn attempt<'c, A, F>(
        &'c self,
        (clock, now): (&'c ClockSource, Micros),
        (time, facts): (TimeSource, &'c CallFacts),
        operation: impl Fn(CallContext<'c>) -> F,
        expired: impl Fn() -> A,
    ) -> Attempted<A>
    where
        A: StoreAnswer,
        F: Future<Output = A>,
    {
        let clock = clock.as_dyn();
        let until = now.saturating_add(self.deadline);
        let cx = CallContext::new(time).with_deadline(clock, until).with_facts(facts);
        let attempt = || deadline::within(clock, (now, self.deadline), operation(cx));
        let mut answer = attempt().await.unwrap_or_else(&expired);
        if answer.outage().is_some() && answer.is_not_sent() && clock.now() < until {
            facts.reset();
            answer = attempt().await.unwrap_or_else(&expired);
        }
        let mut span = Span { begun: now, ended: now, deadline: self.deadline };
        if answer.outage().is_some() {
            span.ended = clock.now();
            self.failures.count(span.ended);
        }
        Attempted { answer, span }
    }

    fn count_in(&self) -> Result<CallInFlight<'_>> {
        CallInFlight::count_in(&self.in_flight, self.max_in_flight)
    }

    /// Learns from an answer of the store what this process may grant alone.
    pub(super) fn mirror(&self, admission: &Admission<'_>, outcome: &Evidence, now: Micros) {
        if outcome.replayed.is_none() {
            self.local.observe(admission, outcome, now);
        }
    }

    /// Notices keys that a clock ahead of the one that decided has charged.
    pub(super) fn watch_clocks(&self, admission: &Admission<'_>, outcome: &Evidence) {
        if outcome.replayed.is_some() {
            return;
        }
        for (charge, before) in admission.charges().iter().zip(&outcome.before) {
            if let Some(before) = before {
                self.watch_clock(charge, before, outcome.now);
            }
        }
    }

    /// Decides by the failure mode. The strictest mode of the limits wins.
    pub(super) fn decide_without_store(
        &self,
        admission: &Admission<'_>,
        error: &Error,
        now: Micros,
    ) -> Result<Decision> {
        let limits: Vec<Option<Limit>> =
            admission.charges().iter().map(|charge| charge.limit.chosen(error.code())).collect();
        let chosen = admission
            .charges()
            .iter()
            .zip(&limits)
            .map(|(charge, limit)| limit.as_ref().map_or(*charge, |limit| charge.under(limit)));
        let charges: Vec<Charge<'_>> = chosen.collect();
        let admission = &admission.with_charges(&charges);
        let fresh = derive::on_fresh_keys(admission, now)?;
        let (mode, decision) = match strictest(admission) {
            // No store is needed to know that waiting is useless.
            mode if fresh.verdict == Verdict::Never => {
                let never = Decision::never(fresh.limit, 0, to_ms_up(now));
                (mode, bound_by(never, fresh.binding()))
            }
            OutageMode::Open => {
                let open = Decision::allowed(ceiling(admission), 0, to_ms_up(now));
                // Of a range as much as the limits ever grant.
                (OutageMode::Open, open.granting(fresh.granted()))
            }
            OutageMode::Closed => {
                (OutageMode::Closed, self.refusal(admission, (OutageMode::Closed, error), now))
            }
            OutageMode::Local => self.decide_alone(admission, error, now)?,
        };
        self.report(mode, error, now);
        Ok(decision.degraded(mode))
    }

    fn decide_alone(
        &self,
        admission: &Admission<'_>,
        outage: &Error,
        now: Micros,
    ) -> Result<(OutageMode, Decision)> {
        match self.local.decide(admission, now) {
            // More than this process may grant alone, but not more than the store may.
            Ok(decision) if decision.verdict == Verdict::Never => {
                let refusal = self.refusal(admission, (OutageMode::Local, outage), now);
                Ok((OutageMode::Local, bound_by(refusal, decision.binding())))
            }
            Ok(decision) => Ok((OutageMode::Local, decision)),
            // No share of this algorithm can be made: the safe answer is the closed one.
            Err(error) if error.code() == Code::Unsupported => {
                Ok((OutageMode::Closed, self.refusal(admission, (OutageMode::Local, outage), now)))
            }
            // A conflicting request id, too many of them: never decided by a mode.
            Err(error) => Err(error),
        }
    }

    /// A denial until the store is called again, in the name of the first limit of this mode.
    fn refusal(
        &self,
        admission: &Admission<'_>,
        (mode, outage): (OutageMode, &Error),
        now: Micros,
    ) -> Decision {
        let wait = to_ms_up(self.breakers.closed_until(outage, now).saturating_sub(now));
        let denied = Decision::denied(ceiling(admission), 0, to_ms_up(now), wait);
        let [_, _, ..] = admission.charges() else { return denied };
        let mut limits = admission.charges().iter().map(|charge| charge.limit);
        let binding = limits.find(|limit| limit.outage_mode() == mode);
        bound_by(denied, binding.map(Limit::policy))
    }

    /// The error with the reason of the outage, if a breaker refused the call.
    pub(super) fn explained(&self, error: Error) -> Error {
        match error.refused_by() {
            Some(_) => Error::new(error.code(), self.breakers.reason(&error)).not_sent(),
            None => error,
        }
    }

    fn report(&self, mode: OutageMode, error: &Error, now: Micros) {
        let [open, closed, local] = &self.degraded;
        let counter = match mode {
            OutageMode::Open => open,
            OutageMode::Closed => closed,
            OutageMode::Local => local,
        };
        if let (Some(decisions), Some(observer)) = (counter.count(now), &self.observer) {
            let (code, reason) = (error.code(), &*self.breakers.reason(error));
            observer.degraded(&Degradation { mode, code, reason, decisions });
        }
    }

    /// Learns that keys may be in debt.
    pub(super) fn watch_debts(&self, settled: &[Settlement]) {
        if settled.iter().any(|settlement| settlement.charged > 0) {
            self.has_charged_debts.store(true, Relaxed);
        }
    }

    /// Notices keys that a clock ahead of this one has charged: they are frozen until it catches
    /// up. What a schedule has ahead of the clock is the same for debt and for time, so a limiter
    /// that charges into debt takes as much for debt as a key may owe.
    fn watch_clock(&self, charge: &Charge<'_>, before: &State, now: Now) {
        let rule = charge.rule();
        if before.quota_id.family() != rule.quota_id().family() {
            return;
        }
        let reset_at_ms = rule.peek(&before.words, now, Cost::ONE).reset_at_ms;
        let seen = reset_at_ms.saturating_mul(MICROS_PER_MS).saturating_sub(rule.horizon());
        let may_be_debt =
            if self.has_charged_debts.load(Relaxed) { longest_debt(charge) } else { 0 };
        let ahead = seen.saturating_sub(now.effective()).saturating_sub(may_be_debt);
        if ahead > CLOCKS_AGREE
            && let (Some(_), Some(observer)) =
                (self.clock_behind.count(now.reading()), &self.observer)
        {
            observer.clock_behind(charge.limit.policy().as_str(), ahead / MICROS_PER_MS);
        }
    }

    pub(super) fn stats(&self) -> Stats {
        let [degraded_open, degraded_closed, degraded_local] =
            self.degraded.each_ref().map(Counter::total);
        Stats {
            degraded_open,
            degraded_closed,
            degraded_local,
            store_failures: self.failures.total(),
            breaker_rejections: self.breakers.rejections(),
            clock_behind: self.clock_behind.total(),
        }
    }
}

/// How far ahead of the clock debt alone can take the state of a key.
fn longest_debt(charge: &Charge<'_>) -> Micros {
    match charge.rule().describe() {
        Description { units, period, renewal: Renewal::Steady, .. } => {
            let debt = u128::from(charge.limit.debt_bound()) * u128::from(period);
            Micros::try_from(debt.div_ceil(u128::from(units.max(1)))).unwrap_or(Micros::MAX)
        }
        _ => 0,
    }
}

fn ceiling(admission: &Admission<'_>) -> u64 {
    admission.charges().iter().map(|charge| charge.rule().ceiling()).min().unwrap_or(0)
}

fn bound_by(decision: Decision, binding: Option<&Name>) -> Decision {
    match binding {
        Some(binding) => decision.with_binding(binding.clone()),
        None => decision,
    }
}

/// Closed before local before open.
fn strictest(admission: &Admission<'_>) -> OutageMode {
    let has = |mode| admission.charges().iter().any(|charge| charge.limit.outage_mode() == mode);
    match (has(OutageMode::Closed), has(OutageMode::Local)) {
        (true, _) => OutageMode::Closed,
        (false, true) => OutageMode::Local,
        (false, false) => OutageMode::Open,
    }
}

/// A call that has ended.
pub(super) struct Attempted<A> {
    answer: A,
    /// Its end is read only if it met an outage.
    span: Span,
}

/// A call that counts, until it ends or is dropped.
///
/// Not a [`CallLimit`](crate::store::CallLimit), in which calls wait in order for a connection:
/// here a call above the bound is refused at once, nothing waits, and every remote call passes, so
/// it is one atomic number without a lock.
struct CallInFlight<'a>(&'a AtomicUsize);

impl<'a> CallInFlight<'a> {
    fn count_in(in_flight: &'a AtomicUsize, max: usize) -> Result<Self> {
        // Never above the bound, not even for a moment: a refused call must not refuse another.
        match in_flight.fetch_update(Relaxed, Relaxed, |calls| (calls < max).then(|| calls + 1)) {
            Ok(_) => Ok(Self(in_flight)),
            Err(_) => Err(Error::new(Code::QueueFull, "too many calls are waiting for the store")),
        }
    }
}

impl Drop for CallInFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
