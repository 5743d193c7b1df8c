//! Charges over several slots of a cluster, which no script can make at once.
//!
//! The slots are charged one after another, in the order of their numbers, at the instant that the
//! first of them reads; a later denial undoes the earlier charges exactly. This never admits more
//! than a single server would. It may briefly admit less: between a charge and its undoing other
//! callers find the units spent. Where the transport can spawn, charging and undoing are detached
//! from the caller; elsewhere a caller that is cancelled in that moment leaves its units spent.
//! Where that matters, keep the keys in one slot ([`KeyLayout`](crate::KeyLayout)).
//!
//! Other callers may charge a key before it is put back, or keep changing it while units are given
//! back. For a caller whose deadline expires then, this is contention, not an outage.
//!
//! The record of a request id is in the slot of the first key. That slot is charged last, so that
//! the record is written exactly when all charges are made. When the reply of that slot is lost, it
//! is unknown whether there is a record, which would admit the next attempt: then nothing is
//! undone.
//!
//! A decision stands. A node that does not answer while a denial is undone keeps units; it does not
//! turn the denial into an outage, which a policy may admit.

use std::sync::Arc;

use tollgate_core::store::cas::{Swap, Version, Versioned as _};
use tollgate_core::store::{
    CallContext, Evidence, Plan, Store as _, TimeSource, plan, record, slots_of,
};
use tollgate_core::{
    Admission, Charge, Code, Cost, Error, Now, Operation, OwnedAdmission, Receipt, Result, State,
};

use super::admit::{Answered, Part, one_quota_per_key, read};
use super::detach::{self, Detached};
use super::{Inner, Redis};
use crate::transport::Transport;

/// How often giving units back is begun anew after it has lost as many races as [`Retries`] allow:
/// some minutes of them. The caller may be refused meanwhile, but must not stay charged.
///
/// [`Retries`]: tollgate_core::store::Retries
const GIVE_BACK_ROUNDS: usize = 300;

/// The charges of one slot: their places in the admission.
struct Leg {
    places: Vec<usize>,
    /// Whether the record is written with it.
    is_home: bool,
}

/// The result of the charges of a slot.
enum Charging {
    Answered(Answered),
    /// It is unknown whether they were made and a record was written.
    Lost(Error),
}

/// The result of an attempt to leave a leg as if it had not been charged.
enum PutBack {
    Done,
    /// Another caller has charged it meanwhile.
    LostRace,
    /// Its stored form is unknown.
    Impossible,
}

/// What a leg was before and is now.
struct Charged {
    places: Vec<usize>,
    before: Vec<Option<State>>,
    plan: Plan,
}

impl<T: Transport> Redis<T> {
    pub(super) async fn admit_over_slots(
        &self,
        admission: &Admission<'_>,
        cx: CallContext<'_>,
    ) -> Result<Evidence> {
        let (inner, owned, at) = (self.0.clone(), OwnedAdmission::from(admission), cx.time());
        let shared = Arc::new(Detached::default());
        let work = {
            let shared = Arc::clone(&shared);
            async move {
                let charges = owned.charges();
                inner.charge_slots(&owned.of(&charges), at, &shared).await
            }
        };
        let spawner = || self.0.runner.transport.spawner();
        detach::run((shared, cx), spawner, Box::pin(work)).await
    }
}

impl<T: Transport> Inner<T> {
    async fn charge_slots(
        &self,
        admission: &Admission<'_>,
        at: TimeSource,
        shared: &Detached,
    ) -> Result<Evidence> {
        if admission.charges().iter().any(|charge| charge.operation != Operation::Take) {
            return self.refund_slots(admission, at).await;
        }
        let mut at = at;
        let mut done: Vec<Charged> = Vec::new();
        let legs = self.legs(admission);
        refuse_what_no_script_records(admission, &legs)?;
        for leg in &legs {
            match self.charge_leg(leg, &done, admission, (at, shared)).await {
                Ok(Charging::Answered(Answered::Decided(outcome))) => {
                    at = TimeSource::Given(outcome.now.reading());
                    let charged = Charged::of(leg, admission, outcome)?;
                    let admitted = charged.plan.admitted;
                    done.push(charged);
                    if !admitted {
                        return Ok(self.deny(admission, done, (at, shared)).await);
                    }
                }
                Ok(Charging::Answered(Answered::Replayed(outcome))) => {
                    self.undo(admission, &done, (at, shared)).await;
                    return Ok(outcome);
                }
                Ok(Charging::Answered(Answered::NotScripted)) => {
                    self.undo(admission, &done, (at, shared)).await;
                    return Err(quota_keeps_changing());
                }
                Ok(Charging::Lost(error)) => return Err(error),
                Err(error) => {
                    let is_undone = self.undo(admission, &done, (at, shared)).await;
                    return Err(if is_undone { error } else { error.sent() });
                }
            }
        }
        Ok(Evidence::decided(instant(at), in_order(admission.charges().len(), &done)))
    }

    /// The slots of an admission in the order in which they are charged.
    fn legs(&self, admission: &Admission<'_>) -> Vec<Leg> {
        let slot = |charge: &Charge<'_>| self.runner.slot(&self.runner.layout.name(&charge.key()));
        let home = admission.request_id.and(admission.charges().first()).map(slot);
        let mut legs: Vec<(Option<u16>, Leg)> = Vec::new();
        for (place, charge) in admission.charges().iter().enumerate() {
            let slot = slot(charge);
            match legs.iter_mut().find(|(other, _)| *other == slot) {
                Some((_, leg)) => leg.places.push(place),
                None => {
                    let is_home = home == Some(slot);
                    legs.push((slot, Leg { places: vec![place], is_home }));
                }
            }
        }
        legs.sort_by_key(|(slot, leg)| (leg.is_home, *slot));
        legs.into_iter().map(|(_, leg)| leg).collect()
    }

    async fn charge_leg(
        &self,
        leg: &Leg,
        done: &[Charged],
        admission: &Admission<'_>,
        (at, shared): (TimeSource, &Detached),
    ) -> Result<Charging> {
        let cx = CallContext::new(at).with_facts(&shared.facts);
        let charges = pick(admission.charges(), &leg.places);
        if !one_quota_per_key(&charges) {
            let outcome = self.swapping.admit(&Admission::of(&charges), at.into()).await?;
            return Ok(Charging::Answered(Answered::Decided(outcome)));
        }
        let bare = Admission::of(admission.charges());
        let (scope, parts) = if leg.is_home {
            (admission, with_evidence(admission, leg, done))
        } else {
            (&bare, charges.iter().map(Part::Charge).collect())
        };
        for carries in 0.. {
            let call = self.admit_call(&parts, scope, at);
            let reply = match self.runner.run(&call, cx, || !shared.is_cancelled()).await {
                Err(error) if leg.is_home && !error.is_not_sent() => {
                    return Ok(Charging::Lost(error));
                }
                reply => reply,
            };
            match read(reply, &charges, admission)? {
                Answered::NotScripted if self.runner.retries.is_exhausted(carries) => break,
                Answered::NotScripted => {
                    self.carry(&charges, at).await?;
                }
                answered => return Ok(Charging::Answered(answered)),
            }
        }
        Ok(Charging::Answered(Answered::NotScripted))
    }

    /// Carries states of another quota over, by giving back nothing.
    async fn carry(&self, charges: &[Charge<'_>], at: TimeSource) -> Result<()> {
        for charge in charges {
            let nothing = [charge.refund(Receipt::Until(0)).cost(Cost::ONE)];
            self.swapping.admit(&Admission::of(&nothing), at.into()).await?;
        }
        Ok(())
    }

    /// Undoes what was charged, and reports the states of all keys.
    async fn deny(
        &self,
        admission: &Admission<'_>,
        mut done: Vec<Charged>,
        (at, shared): (TimeSource, &Detached),
    ) -> Evidence {
        let denied = done.pop();
        self.undo(admission, &done, (at, shared)).await;
        done.extend(denied);
        let mut before = in_order(admission.charges().len(), &done);
        let known: Vec<usize> = done.iter().flat_map(|leg| leg.places.iter().copied()).collect();
        let rest: Vec<usize> =
            (0..admission.charges().len()).filter(|place| !known.contains(place)).collect();
        let loaded = self.load(&pick(admission.charges(), &rest), at.into()).await;
        let states = loaded.map(|loaded| loaded.states).unwrap_or_default();
        for (place, state) in rest.into_iter().zip(states) {
            if let Some(known) = before.get_mut(place) {
                *known = state;
            }
        }
        Evidence::decided(instant(at), before)
    }

    /// Puts every leg back; whether that was possible everywhere. A node that does not answer keeps
    /// its units, and only its own.
    async fn undo(
        &self,
        admission: &Admission<'_>,
        done: &[Charged],
        at: (TimeSource, &Detached),
    ) -> bool {
        let mut is_undone = true;
        for leg in done {
            is_undone &= self.undo_leg(admission, leg, at).await.is_ok();
        }
        is_undone
    }

    /// As it was if no other caller charged it meanwhile, else by giving back what this admission
    /// took.
    async fn undo_leg(
        &self,
        admission: &Admission<'_>,
        leg: &Charged,
        (at, shared): (TimeSource, &Detached),
    ) -> Result<()> {
        let charges = pick(admission.charges(), &leg.places);
        match self.put_back(&charges, leg).await? {
            PutBack::Done => return Ok(()),
            // The charge is undone whether the caller waits or not.
            PutBack::LostRace => CallContext::new(at).with_facts(&shared.facts).lost_race(),
            PutBack::Impossible => {}
        }
        let refunds: Vec<Charge<'_>> =
            charges.iter().map(|charge| charge.refund(Receipt::Newest)).collect();
        self.give_back(&Admission::of(&refunds), at).await
    }

    /// Gives units back. An attempt that lost too many races has changed nothing, and is begun
    /// anew.
    async fn give_back(&self, refunds: &Admission<'_>, at: TimeSource) -> Result<()> {
        let mut rounds = 1..GIVE_BACK_ROUNDS;
        loop {
            match self.swapping.admit(refunds, at.into()).await {
                Err(error)
                    if error.code() == Code::ConflictExhausted && rounds.next().is_some() => {}
                other => return other.map(drop),
            }
        }
    }

    async fn put_back(&self, charges: &[Charge<'_>], leg: &Charged) -> Result<PutBack> {
        let (slots, keys) = slots_of(charges);
        let before = of_slots(&slots, &leg.before);
        let names: Vec<String> = keys.iter().map(tollgate_core::Key::to_text).collect();
        let mut texts = Vec::with_capacity(names.len());
        for write in &leg.plan.writes {
            let after = crate::text::to_hold(&write.state.to_text());
            // The stored form of a list is unknown: its units are given back instead.
            if after.starts_with('l') {
                return Ok(PutBack::Impossible);
            }
            let old = before.get(write.slot).and_then(Option::as_ref);
            let old = old.map_or_else(|| "[]".to_owned(), State::to_text);
            texts.push((write.slot, Version::Text(after.into()), old, write.fresh_at));
        }
        let swaps: Vec<Swap<'_>> = texts
            .iter()
            .filter_map(|(slot, after, old, until)| {
                let key = names.get(*slot)?;
                Some(Swap { key, expect: Some(after), value: old, keep_until: *until })
            })
            .collect();
        let is_done = self.swapping.backend().swap(&swaps).await?;
        Ok(if is_done { PutBack::Done } else { PutBack::LostRace })
    }

    /// Refunds are never denied: every slot is given back for itself.
    async fn refund_slots(&self, admission: &Admission<'_>, at: TimeSource) -> Result<Evidence> {
        let is_refund = |charge: &Charge<'_>| charge.operation != Operation::Take;
        if admission.request_id.is_some() || !admission.charges().iter().all(is_refund) {
            let message = "over several hash slots, refunds come without charges and request ids";
            return Err(Error::new(Code::Unsupported, message).not_sent());
        }
        let (mut at, mut done, mut now) = (at, Vec::new(), Now::at(0));
        for leg in self.legs(admission) {
            let charges = pick(admission.charges(), &leg.places);
            let outcome = self.swapping.admit(&Admission::of(&charges), at.into()).await;
            let outcome = outcome.map_err(|e| if done.is_empty() { e } else { e.sent() })?;
            now = outcome.now;
            at = TimeSource::Given(now.reading());
            done.push((leg.places, outcome.before));
        }
        let mut before = vec![None; admission.charges().len()];
        for (place, state) in
            done.into_iter().flat_map(|(places, states)| places.into_iter().zip(states))
        {
            if let Some(known) = before.get_mut(place) {
                *known = state;
            }
        }
        Ok(Evidence::decided(now, before))
    }
}

impl Charged {
    fn of(leg: &Leg, admission: &Admission<'_>, outcome: Evidence) -> Result<Self> {
        let charges = pick(admission.charges(), &leg.places);
        let (slots, _) = slots_of(&charges);
        let plan = plan(&charges, &slots, &of_slots(&slots, &outcome.before), outcome.now)?;
        Ok(Self { places: leg.places.clone(), before: outcome.before, plan })
    }
}

/// A record is written by a script, with all charges of its slot; no script charges one key under
/// two quotas.
fn refuse_what_no_script_records(admission: &Admission<'_>, legs: &[Leg]) -> Result<()> {
    let is_recorded = |leg: &&Leg| leg.is_home && admission.request_id.is_some();
    let mut recorded = legs.iter().filter(is_recorded);
    if recorded.all(|leg| one_quota_per_key(&pick(admission.charges(), &leg.places))) {
        return Ok(());
    }
    let message =
        "over several hash slots, a request id and two quotas of its first key do not go together";
    Err(Error::new(Code::Unsupported, message).not_sent())
}

fn instant(at: TimeSource) -> Now {
    match at {
        TimeSource::Given(at) => Now::at(at),
        TimeSource::StoreClock => Now::at(0),
    }
}

/// All charges in order: those of this leg, and the evidence of those that are charged already.
fn with_evidence<'a>(admission: &'a Admission<'a>, leg: &Leg, done: &[Charged]) -> Vec<Part<'a>> {
    let before = in_order(admission.charges().len(), done);
    let parts = admission.charges().iter().enumerate().map(|(place, charge)| {
        if leg.places.contains(&place) {
            return Part::Charge(charge);
        }
        let before = before.get(place).and_then(Option::as_ref);
        Part::Known(record::evidence_text(charge.rule().quota_id(), before))
    });
    parts.collect()
}

fn pick<'a>(charges: &[Charge<'a>], places: &[usize]) -> Vec<Charge<'a>> {
    places.iter().filter_map(|place| charges.get(*place).copied()).collect()
}

/// The states of slots, from those of the charges on them.
fn of_slots(slots: &[usize], before: &[Option<State>]) -> Vec<Option<State>> {
    let mut states: Vec<Option<State>> = Vec::new();
    for (slot, state) in slots.iter().zip(before) {
        if *slot == states.len() {
            states.push(state.clone());
        }
    }
    states
}

fn in_order(charges: usize, done: &[Charged]) -> Vec<Option<State>> {
    let mut before = vec![None; charges];
    for leg in done {
        for (place, state) in leg.places.iter().zip(&leg.before) {
            if let Some(known) = before.get_mut(*place) {
                known.clone_from(state);
            }
        }
    }
    before
}

fn quota_keeps_changing() -> Error {
    Error::new(Code::ConflictExhausted, "the quota of a key kept changing; nothing was charged")
}
