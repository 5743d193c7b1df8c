//! What every request goes through: asked of the limits, decided, delayed, settled.
//!
//! The gate knows nothing of services and bodies; `service.rs` and `future.rs` carry its results out.

use core::fmt;
use core::time::Duration;

use bytes::Bytes;
use http::{Extensions, HeaderMap, Response, StatusCode};
use tollgate::clock::sleep_until;
use tollgate::{Charge, Cost, Decision, Result, Verdict};

use crate::decide::{Answer, Decide};
use crate::event::Event;
use crate::extract::Unkeyed;
use crate::head::Head;
use crate::headers::{Headers, Reading};
use crate::keyed::{Asked, Keyed, Outcome, whole_ms};
use crate::reply::{self, Refusal, Wire};

type SkipRule = dyn Fn(&Head<'_>) -> bool + Send + Sync;
type Listener = dyn Fn(&Event<'_>) + Send + Sync;
type Customize = dyn Fn(&Refusal<'_>, Response<Bytes>) -> Response<Bytes> + Send + Sync;

const MICROS_PER_MS: u64 = 1_000;

/// Everything that a layer was told, and what decides.
pub(crate) struct Gate<D> {
    pub(crate) decider: D,
    pub(crate) keyed: Vec<Keyed>,
    pub(crate) skip: Vec<Box<SkipRule>>,
    pub(crate) headers: Headers,
    pub(crate) listener: Option<Box<Listener>>,
    pub(crate) customize: Option<Box<Customize>>,
    pub(crate) max_delay: Duration,
    pub(crate) is_shadow: bool,
}

/// Whether a request passes.
pub(crate) enum Passage {
    /// Nothing was asked: no headers, nothing to settle.
    Free,
    Passed(Passed),
    Refused(Response<Bytes>),
}

/// A request that passed, and what it was charged.
pub(crate) struct Passed {
    asked: Asks,
    answer: Answer,
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
    Hold(Passed),
}

impl<D: Decide> Gate<D> {
    /// As much as can be done without waiting.
    pub(crate) fn at_once(&self, head: &Head<'_>) -> AtOnce {
        if self.skip.iter().any(|rule| rule(head)) {
            return AtOnce::Done(Passage::Free);
        }
        let asked = match self.ask(head) {
            Ok(Some(asked)) => asked,
            Ok(None) => return AtOnce::Done(Passage::Free),
            Err(error) => return AtOnce::Done(self.unkeyed(&error, Wire::of(head))),
        };
        let [only] = asked.as_slice() else { return AtOnce::Ask(asked) };
        let decided = self.charge(only).and_then(|charge| self.decider.decide_now(charge));
        match decided {
            None => AtOnce::Ask(asked),
            Some(result) => match self.conclude(asked, result.map(Answer::from), Wire::of(head)) {
                Passage::Passed(passed) if self.delay_ms(&passed) > 0 => AtOnce::Hold(passed),
                passage => AtOnce::Done(passage),
            },
        }
    }

    /// Decides what could not be decided at once.
    pub(crate) async fn decide(&self, asked: Asks, wire: Wire) -> Passage {
        let charges: Vec<Charge<'_>> =
            asked.as_slice().iter().filter_map(|one| self.charge(one)).collect();
        let answer = self.decider.decide(&charges).await;
        match self.conclude(asked, answer, wire) {
            Passage::Passed(passed) if self.delay_ms(&passed) > 0 => self.hold(passed, wire).await,
            passage => passage,
        }
    }

    /// Holds a request back as long as its decision says; not if that is too long. Dropping this
    /// leaves the charge as it is: the turn was taken.
    pub(crate) async fn hold(&self, passed: Passed, wire: Wire) -> Passage {
        let delay_ms = self.delay_ms(&passed);
        let max_ms = whole_ms(self.max_delay);
        let shaped_ms = passed.answer.decision.delay_ms;
        if shaped_ms > max_ms && !self.is_shadow {
            for (index, asked) in passed.asked.as_slice().iter().enumerate() {
                self.give_back(asked, asked.cost, &passed.answer, index).await;
            }
            let one = &passed.answer.decision;
            let late = Decision::denied(one.limit, 0, one.reset_at_ms, shaped_ms - max_ms);
            let refusal = Refusal::Denied { decision: &late, violated: self.names(&passed.asked) };
            self.tell(&Event::Refused(&late));
            return self.refused(&refusal, &passed.asked, &Answer::from(late.clone()), wire);
        }
        if !self.is_shadow {
            let clock = self.decider.clock();
            let wait = delay_ms.min(max_ms).saturating_mul(MICROS_PER_MS);
            sleep_until(clock, clock.now().saturating_add(wait)).await;
        }
        Passage::Passed(passed)
    }

    /// What each limit says was used, once the response is known; `None` when none settles.
    pub(crate) fn used(&self, passed: &Passed, seen: Seen<'_>) -> Option<Vec<Option<u64>>> {
        let (status, headers, extensions) = seen;
        let asked = passed.asked.as_slice();
        let keyed = |asked: &Asked| self.keyed.get(asked.index);
        if !asked.iter().filter_map(keyed).any(Keyed::settles) {
            return None;
        }
        let used = asked.iter().map(|asked| {
            let outcome = Outcome { cost: asked.cost, status, headers, extensions };
            keyed(asked).and_then(|keyed| keyed.used(&outcome))
        });
        Some(used.collect())
    }

    /// Gives back what was not used, charges what was used beyond it.
    pub(crate) async fn settle(&self, passed: &Passed, used: Vec<Option<u64>>) {
        for (index, (asked, used)) in passed.asked.as_slice().iter().zip(used).enumerate() {
            let Some(used) = used else { continue };
            let charged = asked.cost.get();
            let beyond = used.saturating_sub(charged).min(Cost::MAX.get());
            if let Ok(unused) = Cost::new(charged.saturating_sub(used)) {
                self.give_back(asked, unused, &passed.answer, index).await;
            } else if let Ok(beyond) = Cost::new(beyond) {
                self.take(asked, beyond).await;
            }
        }
    }

    /// Adds the headers of a request that passed to its response.
    pub(crate) fn stamp(&self, passed: &Passed, headers: &mut HeaderMap) {
        if !self.is_shadow && self.headers.is_on() {
            self.write_headers(&passed.asked, &passed.answer, headers);
        }
    }

    fn ask(&self, head: &Head<'_>) -> Result<Option<Asks>, Unkeyed> {
        if let [only] = &*self.keyed {
            return Ok(only.ask(0, head)?.map(Asks::One));
        }
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

    fn conclude(&self, asked: Asks, answer: Result<Answer>, wire: Wire) -> Passage {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.tell(&Event::Undecided(&error));
                return self.unless_shadow(&Refusal::Undecided(&error), wire);
            }
        };
        if answer.decision.is_allowed() {
            self.tell(&Event::Allowed(&answer.decision));
            return Passage::Passed(Passed { asked, answer });
        }
        if self.is_shadow {
            self.tell(&Event::Shadowed(&answer.decision));
            return Passage::Free;
        }
        self.tell(&Event::Refused(&answer.decision));
        let violated = self.violated(&asked, &answer);
        let refusal = Refusal::Denied { decision: &answer.decision, violated };
        self.refused(&refusal, &asked, &answer, wire)
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

    fn refused(&self, why: &Refusal<'_>, asked: &Asks, answer: &Answer, wire: Wire) -> Passage {
        let mut response = reply::response(why, wire);
        // Without the store, nothing is known about the quota.
        if answer.decision.degraded.is_none() && self.headers.is_on() {
            self.write_headers(asked, answer, response.headers_mut());
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
    fn delay_ms(&self, passed: &Passed) -> u64 {
        let asked = passed.asked.as_slice().iter().enumerate();
        let slowed = asked.filter_map(|(index, asked)| {
            Some(self.keyed.get(asked.index)?.delay_ms(passed.answer.part(index)))
        });
        slowed.max().unwrap_or(0).max(passed.answer.decision.delay_ms)
    }

    async fn give_back(&self, asked: &Asked, units: Cost, answer: &Answer, index: usize) {
        let charge = self.charge(asked).map(|charge| charge.cost(units));
        let (Some(charge), Some(receipt)) = (charge, answer.receipt(index)) else { return };
        if let Err(error) = self.decider.refund(charge, receipt).await {
            self.tell(&Event::Unsettled(&error));
        }
    }

    /// Charges units that were used already: all of them, or else those that are left.
    async fn take(&self, asked: &Asked, units: Cost) {
        let Some(charge) = self.charge(asked) else { return };
        let left = match self.decider.decide(&[charge.cost(units)]).await {
            Ok(answer) if answer.decision.verdict == Verdict::Allowed => return,
            Ok(answer) => Cost::new(answer.decision.remaining.min(units.get())),
            Err(error) => return self.tell(&Event::Unsettled(&error)),
        };
        if let Ok(left) = left
            && let Err(error) = self.decider.decide(&[charge.cost(left)]).await
        {
            self.tell(&Event::Unsettled(&error));
        }
    }

    fn write_headers(&self, asked: &Asks, answer: &Answer, headers: &mut HeaderMap) {
        let now_ms = self.decider.clock().now() / MICROS_PER_MS;
        let reading = |(index, asked): (usize, &Asked)| {
            let limit = &self.keyed.get(asked.index)?.limit;
            Some(Reading::new(limit, answer.part(index), &answer.decision, now_ms))
        };
        match asked {
            Asks::One(only) => {
                if let Some(reading) = reading((0, only)) {
                    self.headers.write(&[reading], headers);
                }
            }
            Asks::Many(several) => {
                let readings: Vec<Reading<'_>> =
                    several.iter().enumerate().filter_map(reading).collect();
                self.headers.write(&readings, headers);
            }
        }
    }

    /// The names of the limits that refused; those that decide in an outage have no parts.
    fn violated(&self, asked: &Asks, answer: &Answer) -> Vec<&str> {
        if answer.parts.is_empty() {
            return match &answer.decision.binding {
                Some(name) => {
                    let named = |limit: &&str| *limit == name.as_str();
                    self.names(asked).into_iter().filter(named).collect()
                }
                None => self.names(asked),
            };
        }
        let named = asked.as_slice().iter().enumerate().filter_map(|(index, asked)| {
            let limit = &self.keyed.get(asked.index)?.limit;
            (!answer.part(index).is_allowed()).then(|| limit.policy().as_str())
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

/// What is seen of a response: status, headers, extensions.
pub(crate) type Seen<'a> = (StatusCode, &'a HeaderMap, &'a Extensions);

impl<D> fmt::Debug for Gate<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gate = f.debug_struct("Gate");
        gate.field("keyed", &self.keyed).field("is_shadow", &self.is_shadow).finish_non_exhaustive()
    }
}
