//! What every request goes through: asked of the limits, decided, delayed, settled.
//!
//! The gate knows nothing of services and bodies; `service.rs` and `future.rs` carry its results out.

mod settle;

use core::fmt;
use core::ops::ControlFlow::{self, Break, Continue};
use core::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response};
use tollgate::clock::sleep_until;
use tollgate::{Charge, Decision, Limit, Result};
use tollgate_http::{LimitFields, QuotaPolicy, RateLimitFields};

use crate::decide::Decide;
use crate::event::Event;
use crate::extract::Unkeyed;
use crate::head::Head;
use crate::keyed::{Asked, Keyed, whole_ms};
use crate::reply::{self, Refusal, Wire};
use crate::subject::Subject;

type SkipRule = dyn Fn(&Head<'_>) -> bool + Send + Sync;
type Listener = dyn Fn(&Event<'_>) + Send + Sync;
type Customize = dyn Fn(&Refusal<'_>, Response<Bytes>) -> Response<Bytes> + Send + Sync;

const MICROS_PER_MS: u64 = 1_000;

/// Everything that a layer was told, and what decides.
pub(crate) struct Gate<D> {
    pub(crate) decider: D,
    pub(crate) keyed: Vec<Keyed>,
    pub(crate) skip: Vec<Box<SkipRule>>,
    pub(crate) fields: RateLimitFields,
    pub(crate) listener: Option<Box<Listener>>,
    pub(crate) customize: Option<Box<Customize>>,
    pub(crate) max_delay: Duration,
    pub(crate) is_shadow: bool,
}

/// Whether a request passes.
pub(crate) enum Passage {
    /// Nothing was asked, or nothing is to be done about it: no headers, nothing to settle.
    Free,
    Passed(Passed),
    Refused(Response<Bytes>),
}

impl Passage {
    /// The only limit allows it, and says so in headers.
    const fn stamped(decision: &Decision) -> Self {
        let Decision { limit, remaining, reset_at_ms, .. } = *decision;
        Self::Passed(Passed::One([limit, remaining, reset_at_ms]))
    }
}

/// A request that passed, and what is needed once its response is known. Small, because it travels
/// with every request: all that was asked is kept only where it is settled or was several.
pub(crate) enum Passed {
    /// The only limit of the layer: its ceiling, what is left, and when it is full again.
    One([u64; 3]),
    Whole(Box<Granted>),
}

/// What was asked, and what was granted.
pub(crate) struct Granted {
    asked: Asks,
    decision: Decision,
}

/// What a request asks. One limit is the rule, and needs no list.
pub(crate) enum Asks {
    One(Asked),
    Many(Vec<Asked>),
}

impl Asks {
    fn as_slice(&self) -> &[Asked] {
        match self {
            Self::One(asked) => core::slice::from_ref(asked),
            Self::Many(asked) => asked,
        }
    }
}

/// What can be said at once.
pub(crate) enum AtOnce {
    Done(Passage),
    /// It has to be decided by something that waits.
    Ask(Asks),
    /// It passed, and has to be held back.
    Hold(Granted),
}

impl<D: Decide> Gate<D> {
    /// As much as can be done without waiting; `None` when the request passes and that is all.
    pub(crate) fn at_once(&self, head: &Head<'_>) -> Option<AtOnce> {
        if self.skip.iter().any(|rule| rule(head)) {
            return None;
        }
        if let [only] = &*self.keyed {
            return self.at_once_one(only, head);
        }
        match self.ask(head) {
            Ok(asked) => asked.map(AtOnce::Ask),
            Err(error) => Some(AtOnce::Done(self.unkeyed(&error, Wire::of(head)))),
        }
    }

    /// The same for the only limit: the path of most requests, on which nothing is moved about.
    fn at_once_one(&self, keyed: &Keyed, head: &Head<'_>) -> Option<AtOnce> {
        let mut subject = Subject::default();
        match keyed.subject(head, &mut subject) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(AtOnce::Done(self.unkeyed(&error, Wire::of(head)))),
        }
        let cost = keyed.cost_of(head);
        let decided = self.decider.decide_now(keyed.limit.charge(subject.as_str()).cost(cost));
        // Looked at where it is: to move a decision costs more than to look at it.
        if let Some(Ok(decision)) = &decided
            && decision.is_allowed()
            && !keyed.settles()
            && keyed.delay_ms(decision).max(decision.delay_ms) == 0
        {
            self.tell(&Event::Allowed(decision));
            return self.stamps().then(|| AtOnce::Done(Passage::stamped(decision)));
        }
        Some(self.at_once_otherwise(Asked { index: 0, subject, cost }, decided, head))
    }

    #[cold]
    fn at_once_otherwise(
        &self,
        asked: Asked,
        decided: Option<Result<Decision>>,
        head: &Head<'_>,
    ) -> AtOnce {
        let asked = Asks::One(asked);
        let Some(decided) = decided else { return AtOnce::Ask(asked) };

        match self.conclude(asked, decided, || Wire::of(head)) {
            Continue(granted) if self.delay_ms(&granted) > 0 => AtOnce::Hold(granted),
            Continue(granted) => AtOnce::Done(self.passed(granted)),
            Break(passage) => AtOnce::Done(passage),
        }
    }

    /// Decides what could not be decided at once.
    pub(crate) async fn decide(&self, asked: Asks, wire: Wire) -> Passage {
        let charges: Vec<Charge<'_>> =
            asked.as_slice().iter().filter_map(|one| self.charge(one)).collect();
        let decided = self.decider.decide(&charges).await;
        match self.conclude(asked, decided, || wire) {
            Continue(granted) if self.delay_ms(&granted) > 0 => self.hold(granted, wire).await,
            Continue(granted) => self.passed(granted),
            Break(passage) => passage,
        }
    }

    /// Holds a request back as long as its decision says; not if that is too long. Dropping this
    /// leaves the charge as it is: the turn was taken.
    pub(crate) async fn hold(&self, granted: Granted, wire: Wire) -> Passage {
        let delay_ms = self.delay_ms(&granted);
        let max_ms = whole_ms(self.max_delay);
        let shaped_ms = granted.decision.delay_ms;
        if shaped_ms > max_ms && !self.is_shadow {
            for (index, asked) in granted.asked.as_slice().iter().enumerate() {
                self.give_back(asked, asked.cost, &granted.decision, index).await;
            }
            let one = &granted.decision;
            let late = Decision::denied(one.limit, 0, one.reset_at_ms, shaped_ms - max_ms);
            let refusal = Refusal::Denied { decision: &late, violated: self.names(&granted.asked) };
            self.tell(&Event::Refused(&late));
            return self.refused(&refusal, &granted.asked, &late, wire);
        }
        if !self.is_shadow {
            let clock = self.decider.clock();
            let wait = delay_ms.min(max_ms).saturating_mul(MICROS_PER_MS);
            sleep_until(clock, clock.now().saturating_add(wait)).await;
        }
        self.passed(granted)
    }

    /// Adds the headers of a request that passed to its response.
    pub(crate) fn stamp(&self, passed: &Passed, headers: &mut HeaderMap) {
        if !self.stamps() {
            return;
        }
        match passed {
            Passed::One([limit, remaining, reset_at_ms]) => {
                if let Some(keyed) = self.keyed.first() {
                    let allowed = Decision::allowed(*limit, *remaining, *reset_at_ms);
                    let stated = stated(&keyed.limit, &allowed, &allowed, self.now_ms());
                    self.fields.write(&[stated], headers);
                }
            }
            Passed::Whole(granted) => {
                self.write_headers(&granted.asked, &granted.decision, headers);
            }
        }
    }

    /// As little of what was granted as is needed later.
    fn passed(&self, granted: Granted) -> Passage {
        match granted.asked {
            _ if self.settles(&granted.asked) => Passage::Passed(Passed::Whole(Box::new(granted))),
            _ if !self.stamps() => Passage::Free,
            Asks::One(_) => Passage::stamped(&granted.decision),
            Asks::Many(_) => Passage::Passed(Passed::Whole(Box::new(granted))),
        }
    }

    fn stamps(&self) -> bool {
        !self.fields.is_empty() && !self.is_shadow
    }

    fn settles(&self, asked: &Asks) -> bool {
        let keyed = asked.as_slice().iter().filter_map(|asked| self.keyed.get(asked.index));
        keyed.into_iter().any(Keyed::settles)
    }

    fn now_ms(&self) -> u64 {
        self.decider.clock().now() / MICROS_PER_MS
    }

    fn ask(&self, head: &Head<'_>) -> Result<Option<Asks>, Unkeyed> {
        let mut all = Vec::with_capacity(self.keyed.len());
        for (index, keyed) in self.keyed.iter().enumerate() {
            all.extend(keyed.ask(index, head)?);
        }
        Ok((!all.is_empty()).then_some(Asks::Many(all)))
    }

    fn charge<'a>(&'a self, asked: &'a Asked) -> Option<Charge<'a>> {
        let keyed = self.keyed.get(asked.index)?;
        Some(keyed.limit.charge(asked.subject.as_str()).cost(asked.cost))
    }

    /// What was granted; or else what becomes of the request.
    fn conclude(
        &self,
        asked: Asks,
        decided: Result<Decision>,
        wire: impl Fn() -> Wire,
    ) -> ControlFlow<Passage, Granted> {
        let decision = match decided {
            Ok(decision) => decision,
            Err(error) => {
                self.tell(&Event::Undecided(&error));
                return Break(self.unless_shadow(&Refusal::Undecided(&error), wire()));
            }
        };
        if decision.is_allowed() {
            self.tell(&Event::Allowed(&decision));
            return Continue(Granted { asked, decision });
        }
        if self.is_shadow {
            self.tell(&Event::Shadowed(&decision));
            return Break(Passage::Free);
        }
        self.tell(&Event::Refused(&decision));
        let violated = self.violated(&asked, &decision);
        let refusal = Refusal::Denied { decision: &decision, violated };
        Break(self.refused(&refusal, &asked, &decision, wire()))
    }

    fn unkeyed(&self, error: &Unkeyed, wire: Wire) -> Passage {
        self.tell(&Event::Unkeyed(error));
        self.unless_shadow(&Refusal::Unkeyed(error), wire)
    }

    fn unless_shadow(&self, refusal: &Refusal<'_>, wire: Wire) -> Passage {
        if self.is_shadow {
            return Passage::Free;
        }
        Passage::Refused(self.customized(refusal, reply::response(refusal, wire)))
    }

    fn refused(&self, why: &Refusal<'_>, asked: &Asks, decision: &Decision, wire: Wire) -> Passage {
        let mut response = reply::response(why, wire);
        // Without the store, nothing is known about the quota.
        if decision.degraded.is_none() && !self.fields.is_empty() {
            self.write_headers(asked, decision, response.headers_mut());
        }
        Passage::Refused(self.customized(why, response))
    }

    fn customized(&self, refusal: &Refusal<'_>, response: Response<Bytes>) -> Response<Bytes> {
        match &self.customize {
            Some(customize) => customize(refusal, response),
            None => response,
        }
    }

    /// How long to hold a request back: its turn in a shaper, or what its fullest key demands.
    fn delay_ms(&self, granted: &Granted) -> u64 {
        let asked = granted.asked.as_slice().iter().enumerate();
        let slowed = asked.filter_map(|(index, asked)| {
            Some(self.keyed.get(asked.index)?.delay_ms(part(&granted.decision, index)))
        });
        slowed.max().unwrap_or(0).max(granted.decision.delay_ms)
    }

    fn write_headers(&self, asked: &Asks, decision: &Decision, headers: &mut HeaderMap) {
        let now_ms = self.now_ms();
        let stated = |(index, asked): (usize, &Asked)| {
            let limit = &self.keyed.get(asked.index)?.limit;
            Some(stated(limit, part(decision, index), decision, now_ms))
        };
        match asked {
            Asks::One(only) => {
                if let Some(stated) = stated((0, only)) {
                    self.fields.write(&[stated], headers);
                }
            }
            Asks::Many(several) => {
                let limits: Vec<_> = several.iter().enumerate().filter_map(stated).collect();
                self.fields.write(&limits, headers);
            }
        }
    }

    /// The names of the limits that refused; those that decide in an outage have no parts.
    fn violated(&self, asked: &Asks, decision: &Decision) -> Vec<&str> {
        if decision.parts().is_empty() {
            return match &decision.binding {
                Some(name) => {
                    let named = |limit: &&str| *limit == name.as_str();
                    self.names(asked).into_iter().filter(named).collect()
                }
                None => self.names(asked),
            };
        }
        let named = asked.as_slice().iter().enumerate().filter_map(|(index, asked)| {
            let limit = &self.keyed.get(asked.index)?.limit;
            (!part(decision, index).is_allowed()).then(|| limit.policy().as_str())
        });
        named.collect()
    }

    fn names(&self, asked: &Asks) -> Vec<&str> {
        let asked = asked.as_slice().iter();
        let keyed = asked.filter_map(|asked| self.keyed.get(asked.index));
        keyed.map(|keyed| keyed.limit.policy().as_str()).collect()
    }

    fn tell(&self, event: &Event<'_>) {
        if let Some(listener) = &self.listener {
            listener(event);
        }
    }
}

fn stated<'a>(
    limit: &'a Limit,
    own: &Decision,
    combined: &Decision,
    now_ms: u64,
) -> LimitFields<'a> {
    LimitFields::new(QuotaPolicy::new(limit.policy().as_str(), limit), own, combined, now_ms)
}

/// The decision of one of the charges: its own, or the one on all of them.
pub(crate) fn part(decision: &Decision, index: usize) -> &Decision {
    decision.parts().get(index).unwrap_or(decision)
}

impl<D> fmt::Debug for Gate<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gate = f.debug_struct("Gate");
        gate.field("keyed", &self.keyed).field("is_shadow", &self.is_shadow).finish_non_exhaustive()
    }
}
