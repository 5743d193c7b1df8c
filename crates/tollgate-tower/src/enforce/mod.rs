//! Decides about each request: charges its limits, delays or refuses it, and settles its cost.
//!
//! This module depends on neither services nor bodies: `service.rs` and `future.rs` act on its
//! results.

mod at_end;
mod settle;

use core::fmt;
use core::ops::ControlFlow::{self, Break, Continue};
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response};
use tollgate::clock::sleep_until;
use tollgate::{Charge, Decision, Result};
use tollgate_http::{LimitFields, QuotaPolicy, RateLimitFields};

use crate::decide::Decide;
use crate::event::Event;
use crate::extract::ExtractError;
use crate::limit_rule::{LimitRule, PendingCharge, whole_ms};
use crate::refusal::{self, Protocol, Refusal};
use crate::request_parts::RequestParts;
use crate::subject::Subject;

type SkipRule = dyn Fn(&RequestParts<'_>) -> bool + Send + Sync;
type Listener = dyn Fn(&Event<'_>) + Send + Sync;
type Customize = dyn Fn(&Refusal<'_>, Response<Bytes>) -> Response<Bytes> + Send + Sync;

const MICROS_PER_MS: u64 = 1_000;

/// The settings of a layer, and the limiter behind it.
pub(crate) struct Enforcer<D> {
    pub(crate) decider: D,
    pub(crate) rules: Vec<LimitRule>,
    pub(crate) skip: Vec<Box<SkipRule>>,
    pub(crate) fields: RateLimitFields,
    pub(crate) listener: Option<Box<Listener>>,
    pub(crate) customize: Option<Box<Customize>>,
    pub(crate) max_delay: Duration,
    pub(crate) is_shadow: bool,
    /// Whether a limit settles when the body of the response has ended.
    pub(crate) settles_at_end: bool,
}

/// The result for a request.
pub(crate) enum Admit {
    /// Forward it; its response needs no fields and nothing is settled.
    Plain,
    Admitted(Admitted),
    Refused(Response<Bytes>),
}

impl Admit {
    /// The only limit allows the request, and its response states that.
    const fn single(decision: &Decision) -> Self {
        let Decision { limit, remaining, reset_at_ms, .. } = *decision;
        Self::Admitted(Admitted::Single([limit, remaining, reset_at_ms]))
    }
}

/// An admitted request, with what its response needs. Small, because each request carries one: the
/// charges are kept only if there are several or if they are settled.
pub(crate) enum Admitted {
    /// `limit`, `remaining` and `reset_at_ms` of the only limit.
    Single([u64; 3]),
    Granted(Arc<Granted>),
}

/// The charges of an allowed request, and the decision about them.
pub(crate) struct Granted {
    charges: PendingCharges,
    decision: Decision,
}

/// The charges of a request. Most layers have one limit, for which no list is allocated.
pub(crate) enum PendingCharges {
    One(PendingCharge),
    Many(Vec<PendingCharge>),
}

impl PendingCharges {
    fn as_slice(&self) -> &[PendingCharge] {
        match self {
            Self::One(charge) => core::slice::from_ref(charge),
            Self::Many(charges) => charges,
        }
    }
}

/// As much as can be done without waiting.
pub(crate) enum Immediate {
    Done(Admit),
    /// The limiter has to wait for its store.
    Decide(PendingCharges),
    /// The request was allowed and has to be delayed.
    Delay(Granted),
}

impl<D: Decide> Enforcer<D> {
    /// Does as much as can be done without waiting; `None` is a plain admission.
    pub(crate) fn immediate(&self, request: &RequestParts<'_>) -> Option<Immediate> {
        if self.skip.iter().any(|rule| rule(request)) {
            return None;
        }
        if let [only] = &*self.rules {
            return self.immediate_single(only, request);
        }
        match self.pending(request) {
            Ok(charges) => charges.map(Immediate::Decide),
            Err(error) => Some(Immediate::Done(self.no_subject(&error, request))),
        }
    }

    /// The same for a single limit. Most requests take this path, so it moves no decision.
    fn immediate_single(&self, rule: &LimitRule, request: &RequestParts<'_>) -> Option<Immediate> {
        let mut subject = Subject::default();
        match rule.subject(request, &mut subject) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(Immediate::Done(self.no_subject(&error, request))),
        }
        let cost = rule.cost_of(request);
        let decided = self.decider.decide_now(rule.limit.charge(subject.as_str()).cost(cost));
        // Borrowed: moving a decision costs more than reading it.
        if let Some(Ok(decision)) = &decided
            && decision.is_allowed()
            && !rule.settles()
            && rule.delay_ms(decision).max(decision.delay_ms) == 0
        {
            self.emit(&Event::Allowed(decision));
            return self.writes_fields().then(|| Immediate::Done(Admit::single(decision)));
        }
        Some(self.immediate_other(PendingCharge { index: 0, subject, cost }, decided, request))
    }

    #[cold]
    fn immediate_other(
        &self,
        charge: PendingCharge,
        decided: Option<Result<Decision>>,
        request: &RequestParts<'_>,
    ) -> Immediate {
        let charges = PendingCharges::One(charge);
        let Some(decided) = decided else { return Immediate::Decide(charges) };
        match self.conclude(charges, decided, || Protocol::of(request)) {
            Continue(granted) if self.delay_ms(&granted) > 0 => Immediate::Delay(granted),
            Continue(granted) => Immediate::Done(self.admit(granted)),
            Break(admit) => Immediate::Done(admit),
        }
    }

    /// Decides charges for which the limiter has to wait.
    pub(crate) async fn decide(&self, pending: PendingCharges, protocol: Protocol) -> Admit {
        let charges: Vec<Charge<'_>> =
            pending.as_slice().iter().filter_map(|one| self.charge(one)).collect();
        let decided = self.decider.decide(&charges).await;
        match self.conclude(pending, decided, || protocol) {
            Continue(granted) if self.delay_ms(&granted) > 0 => self.delay(granted, protocol).await,
            Continue(granted) => self.admit(granted),
            Break(admit) => admit,
        }
    }

    /// Delays an allowed request, or refuses it and refunds its charges if a shaper would delay it
    /// for too long. Dropping this future refunds nothing: the place in the shaper's queue is
    /// taken.
    pub(crate) async fn delay(&self, granted: Granted, protocol: Protocol) -> Admit {
        let delay_ms = self.delay_ms(&granted);
        let max_ms = whole_ms(self.max_delay);
        let shaped_ms = granted.decision.delay_ms;
        if shaped_ms > max_ms && !self.is_shadow {
            for (index, charge) in granted.charges.as_slice().iter().enumerate() {
                self.settle_one(charge, &granted.decision, (index, 0)).await;
            }
            let Decision { limit, reset_at_ms, .. } = granted.decision;
            let denied = Decision::denied(limit, 0, reset_at_ms, shaped_ms - max_ms);
            return self.refused(
                &granted.charges,
                &denied,
                self.names(&granted.charges).collect(),
                protocol,
            );
        }
        if !self.is_shadow {
            let clock = self.decider.clock();
            let wait = delay_ms.min(max_ms).saturating_mul(MICROS_PER_MS);
            sleep_until(clock, clock.now().saturating_add(wait)).await;
        }
        self.admit(granted)
    }

    /// Writes the fields of an admitted request to its response.
    pub(crate) fn write_fields(&self, admitted: &Admitted, headers: &mut HeaderMap) {
        if !self.writes_fields() {
            return;
        }
        match admitted {
            Admitted::Single([limit, remaining, reset_at_ms]) => {
                let allowed = Decision::allowed(*limit, *remaining, *reset_at_ms);
                let only = self.limit_fields(0, &allowed, self.now_ms());
                self.fields.write(only.as_slice(), headers);
            }
            Admitted::Granted(granted) => {
                self.write_all_fields(&granted.charges, &granted.decision, headers);
            }
        }
    }

    /// Keeps as little of what was granted as the response needs.
    fn admit(&self, granted: Granted) -> Admit {
        match granted.charges {
            _ if self.settles(&granted.charges) => {
                Admit::Admitted(Admitted::Granted(Arc::new(granted)))
            }
            _ if !self.writes_fields() => Admit::Plain,
            PendingCharges::One(_) => Admit::single(&granted.decision),
            PendingCharges::Many(_) => Admit::Admitted(Admitted::Granted(Arc::new(granted))),
        }
    }

    fn writes_fields(&self) -> bool {
        !self.fields.is_empty() && !self.is_shadow
    }

    fn settles(&self, charges: &PendingCharges) -> bool {
        let mut rules = charges.as_slice().iter().filter_map(|charge| self.rules.get(charge.index));
        rules.any(LimitRule::settles)
    }

    fn now_ms(&self) -> u64 {
        self.decider.clock().now() / MICROS_PER_MS
    }

    /// The charges of a request; `None` when no limit applies to it.
    fn pending(&self, request: &RequestParts<'_>) -> Result<Option<PendingCharges>, ExtractError> {
        let mut all = Vec::with_capacity(self.rules.len());
        for (index, rule) in self.rules.iter().enumerate() {
            let mut subject = Subject::default();
            if rule.subject(request, &mut subject)? {
                all.push(PendingCharge { index, subject, cost: rule.cost_of(request) });
            }
        }
        Ok((!all.is_empty()).then_some(PendingCharges::Many(all)))
    }

    fn charge<'a>(&'a self, pending: &'a PendingCharge) -> Option<Charge<'a>> {
        let rule = self.rules.get(pending.index)?;
        Some(rule.limit.charge(pending.subject.as_str()).cost(pending.cost))
    }

    /// Emits the event of a decision, and continues with it if it allows the request.
    fn conclude(
        &self,
        charges: PendingCharges,
        decided: Result<Decision>,
        protocol: impl Fn() -> Protocol,
    ) -> ControlFlow<Admit, Granted> {
        let decision = match decided {
            Ok(decision) => decision,
            Err(error) => {
                self.emit(&Event::Undecided(&error));
                return Break(self.unless_shadow(&Refusal::Undecided(&error), protocol()));
            }
        };
        if decision.is_allowed() {
            self.emit(&Event::Allowed(&decision));
            return Continue(Granted { charges, decision });
        }
        if self.is_shadow {
            self.emit(&Event::Shadowed(&decision));
            return Break(Admit::Plain);
        }
        let violated = self.violated(&charges, &decision);
        Break(self.refused(&charges, &decision, violated, protocol()))
    }

    fn no_subject(&self, error: &ExtractError, request: &RequestParts<'_>) -> Admit {
        self.emit(&Event::NoSubject(error));
        self.unless_shadow(&Refusal::NoSubject(error), Protocol::of(request))
    }

    fn unless_shadow(&self, refusal: &Refusal<'_>, protocol: Protocol) -> Admit {
        if self.is_shadow {
            return Admit::Plain;
        }
        Admit::Refused(self.customized(refusal, refusal::response(refusal, protocol)))
    }

    fn refused(
        &self,
        charges: &PendingCharges,
        decision: &Decision,
        violated: Vec<&str>,
        protocol: Protocol,
    ) -> Admit {
        self.emit(&Event::Refused(decision));
        let refusal = Refusal::Denied { decision, violated };
        let mut response = refusal::response(&refusal, protocol);
        // A decision without the store has no numbers of the quota.
        if decision.degraded.is_none() {
            self.write_all_fields(charges, decision, response.headers_mut());
        }
        Admit::Refused(self.customized(&refusal, response))
    }

    fn customized(&self, refusal: &Refusal<'_>, response: Response<Bytes>) -> Response<Bytes> {
        match &self.customize {
            Some(customize) => customize(refusal, response),
            None => response,
        }
    }

    /// The delay of an allowed request: that of a shaper, or the longest of its `slow_down`s.
    fn delay_ms(&self, granted: &Granted) -> u64 {
        let charges = granted.charges.as_slice().iter().enumerate();
        let slowed = charges.filter_map(|(index, charge)| {
            Some(self.rules.get(charge.index)?.delay_ms(part(&granted.decision, index)))
        });
        slowed.max().unwrap_or(0).max(granted.decision.delay_ms)
    }

    fn write_all_fields(
        &self,
        charges: &PendingCharges,
        decision: &Decision,
        headers: &mut HeaderMap,
    ) {
        if self.fields.is_empty() {
            return;
        }
        let now_ms = self.now_ms();
        let fields = |(index, charge): (usize, &PendingCharge)| {
            self.limit_fields(charge.index, part(decision, index), now_ms)
        };
        match charges {
            PendingCharges::One(only) => self.fields.write(fields((0, only)).as_slice(), headers),
            PendingCharges::Many(several) => {
                let all: Vec<_> = several.iter().enumerate().filter_map(fields).collect();
                self.fields.write(&all, headers);
            }
        }
    }

    fn limit_fields(&self, index: usize, own: &Decision, now_ms: u64) -> Option<LimitFields<'_>> {
        let policy = QuotaPolicy::from(&self.rules.get(index)?.limit);
        Some(LimitFields::new(policy, own, now_ms))
    }

    /// The names of the limits that deny a request. In an outage, decisions have no parts.
    fn violated<'a>(&'a self, charges: &'a PendingCharges, decision: &Decision) -> Vec<&'a str> {
        let names = self.names(charges);
        match (decision.parts(), decision.binding()) {
            ([], None) => names.collect(),
            ([], Some(binding)) => names.filter(|name| *name == binding.as_str()).collect(),
            (parts, _) => {
                let denied = names.zip(parts).filter(|(_, part)| !part.is_allowed());
                denied.map(|(name, _)| name).collect()
            }
        }
    }

    fn names<'a>(&'a self, charges: &'a PendingCharges) -> impl Iterator<Item = &'a str> {
        let rules = charges.as_slice().iter().filter_map(|charge| self.rules.get(charge.index));
        rules.map(|rule| rule.limit.policy().as_str())
    }

    fn emit(&self, event: &Event<'_>) {
        if let Some(listener) = &self.listener {
            listener(event);
        }
    }
}

/// The decision of one of the charges: its own, or the combined one.
fn part(decision: &Decision, index: usize) -> &Decision {
    decision.parts().get(index).unwrap_or(decision)
}

impl<D> fmt::Debug for Enforcer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut layer = f.debug_struct("Enforcer");
        layer
            .field("rules", &self.rules)
            .field("is_shadow", &self.is_shadow)
            .finish_non_exhaustive()
    }
}
