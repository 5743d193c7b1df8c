//! Admissions over keys that no single act can charge: two slots of a Redis Cluster, two Durable
//! Objects.
//!
//! The parts are charged one after another, in their order, at the instant that the first of them
//! reads; a later denial undoes the earlier charges exactly. This never admits more than one atomic
//! act would. It may briefly admit less: between a charge and its undoing other callers find the
//! units spent. Where the store can spawn, charging and undoing are detached from the caller;
//! elsewhere a caller that is cancelled in that moment leaves its units spent.
//!
//! Other callers may charge a key before it is put back, or keep changing it while units are given
//! back. For a caller whose deadline expires then, this is contention, not an outage: an attacker
//! can cause it, so it must not admit. The error says that a part is being undone. Where the work
//! ends with its caller, the part stays charged, and the outcome is unknown.
//!
//! An error that says that nothing was charged is returned only if that is true: when a charge
//! could not be undone, the outcome is unknown.
//!
//! The record of a request id is in the part of the first key. That part is charged last, so that
//! the record is written exactly when all charges are made. A part that denies before may deny a
//! repeated request, so its record is read then. When the reply of that part is lost, it
//! is unknown whether there is a record, which would admit the next attempt: then nothing is
//! undone.
//!
//! Ranges are narrowed from part to part, because all of them are granted the same. What an earlier
//! part has taken beyond what the last one has left is given back.
//!
//! Settlements are never denied, so each part is settled for itself, at the instant at which it is
//! settled, and has a record of its own under the request id. A call that fails half way is
//! completed by the next one under that id: parts that were settled repeat what they did.
//!
//! A decision stands. A part that does not answer while a denial is undone keeps units; it does not
//! turn the denial into an outage, which a policy may admit.

mod settle;
mod undo;

use core::future::Future;
use std::sync::Arc;

use super::cas::{Swap, Version, record};
use super::detach::{self, Detached, Spawner};
use super::{CallContext, Evidence, Loaded, Plan, TimeSource, plan, slots_of};
use crate::charge::{Admission, Charge};
use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::{Code, Error, Result};
use crate::key::Key;
use crate::maybe_send::{MaybeSend, MaybeSync};
use crate::owned::OwnedAdmission;
use crate::state::State;
use crate::time::Now;

use settle::settle_parts;
use undo::{give_back_excess, undo};

/// A store whose keys are in parts, each of which charges its own keys at once.
pub trait Parts: MaybeSend + MaybeSync + 'static {
    /// Names a part. Parts are charged in this order.
    type Part: Ord + MaybeSend + MaybeSync;

    /// The part that a key is in.
    fn part_of(&self, key: &Key<'_>) -> Self::Part;

    /// Charges the keys of one part, all or nothing, and writes the record if the leg has one.
    ///
    /// An outage that is not marked as [`not_sent`](Error::not_sent) means that the outcome is
    /// unknown; after any other error nothing is charged.
    fn charge(
        &self,
        leg: &Leg<'_>,
        time: TimeSource,
        work: &Detached,
    ) -> impl Future<Output = Result<Evidence>> + MaybeSend;

    /// Settles charges on the keys of one part, under the request id if there is one. Never denied.
    fn settle(
        &self,
        settlements: &Admission<'_>,
        cx: CallContext<'_>,
    ) -> impl Future<Output = Result<Evidence>> + MaybeSend;

    /// How a state is stored, if it is known.
    fn version_of(&self, state: &State) -> Option<Version> {
        Some(Version::Text(state.to_text().into()))
    }

    /// Writes the values of one part if nothing has changed them; whether it did.
    fn put_back(&self, swaps: &[Swap<'_>]) -> impl Future<Output = Result<bool>> + MaybeSend;

    /// Reads states of any part.
    fn load(
        &self,
        charges: &[Charge<'_>],
        cx: CallContext<'_>,
    ) -> impl Future<Output = Result<Loaded>> + MaybeSend;

    /// Reads the record of a request id, by its name.
    fn record(&self, name: &str) -> impl Future<Output = Result<Option<String>>> + MaybeSend;

    /// Runs the rest of an admission whose caller was cancelled.
    fn spawner(&self) -> Option<Spawner> {
        None
    }
}

/// The charges of one part.
#[derive(Debug)]
#[non_exhaustive]
pub struct Leg<'a> {
    /// Those that this part makes.
    pub charges: Vec<Charge<'a>>,
    /// The record of the request id, if this part writes it.
    pub record: Option<Recorded<'a>>,
    places: Vec<usize>,
}

/// What is recorded under a request id with the charges of the last part.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recorded<'a> {
    /// The whole admission.
    pub admission: Admission<'a>,
    /// For each charge that another part has made, the state before it; `None` for those of this
    /// part.
    pub before: Vec<Option<Option<State>>>,
}

/// What a leg was before and is now.
struct Charged<'a> {
    /// With the units that were granted.
    charges: Vec<Charge<'a>>,
    places: Vec<usize>,
    before: Vec<Option<State>>,
    plan: Plan,
    /// Ranges of other parts are granted no more than this.
    bound: Cost,
}

/// Whether the keys of these charges are in more than one part.
pub fn spans_parts<P: Parts>(parts: &P, charges: &[Charge<'_>]) -> bool {
    let mut all = charges.iter().map(|charge| parts.part_of(&charge.key()));
    let Some(first) = all.next() else { return false };
    all.any(|part| part != first)
}

/// Decides an admission over several parts.
///
/// # Errors
/// As [`Store::admit`](super::Store::admit); `unsupported` for settlements together with charges.
pub async fn admit<P: Parts>(
    parts: &Arc<P>,
    admission: &Admission<'_>,
    cx: CallContext<'_>,
) -> Result<Evidence> {
    let (owned, time) = (OwnedAdmission::from(admission), cx.time());
    let shared = Arc::new(Detached::default());
    let work = {
        let (parts, shared) = (Arc::clone(parts), Arc::clone(&shared));
        async move {
            let charges = owned.charges();
            charge_parts(&*parts, &owned.of(&charges), (time, &shared)).await
        }
    };
    detach::run((shared, cx), || parts.spawner(), Box::pin(work)).await
}

async fn charge_parts<P: Parts>(
    parts: &P,
    admission: &Admission<'_>,
    (mut time, work): (TimeSource, &Detached),
) -> Result<Evidence> {
    if admission.is_settlement() {
        return settle_parts(parts, legs(parts, admission), admission, time).await;
    }
    let mut done: Vec<Charged<'_>> = Vec::new();
    let mut bound = Cost::MAX;
    for mut leg in legs(parts, admission) {
        leg.narrow(bound);
        if let Some(record) = &mut leg.record {
            record.before = known(admission.charges().len(), &done);
        }
        match parts.charge(&leg, time, work).await {
            Ok(replayed) if replayed.replayed.is_some() => {
                // A decision stands, whatever stays charged.
                drop(undo(parts, &done, (time, work)).await);
                return Ok(replayed);
            }
            Ok(evidence) => {
                time = TimeSource::Given(evidence.now.reading());
                let charged = Charged::of(leg, evidence)?;
                let admitted = charged.plan.admitted;
                bound = bound.min(charged.bound);
                done.push(charged);
                if !admitted {
                    let recorded = recorded(parts, admission, instant(time)).await;
                    let denied = deny(parts, admission, done, (time, work)).await;
                    return recorded.unwrap_or(Ok(denied));
                }
                work.set_charged(true);
            }
            Err(error) if leg.record.is_some() && error.is_outage() && !error.is_not_sent() => {
                return Err(error);
            }
            Err(error) => {
                return Err(match undo(parts, &done, (time, work)).await {
                    Ok(()) => error,
                    Err(why) => half_charged(error, &why),
                });
            }
        }
    }
    let before = in_order(admission.charges().len(), &done);
    let evidence = Evidence::decided(instant(time), before);
    if bound < Cost::MAX {
        give_back_excess(parts, admission, &evidence, &done).await;
    }
    Ok(evidence)
}

/// The error of an admission that was refused, and of which a part could not be undone.
fn half_charged(refused: Error, why: &Error) -> Error {
    let code = match refused.code() {
        Code::ConflictExhausted | Code::QueueFull | Code::StoreFull => why.code(),
        // These do not say that nothing was charged.
        _ => return refused.sent(),
    };
    let code = match code {
        // An attacker can fill a store: that must not admit.
        Code::StoreUnavailable | Code::Timeout | Code::StoreFull => code,
        _ => Code::Timeout,
    };
    let message = "a part of the charge was made, and could not be undone; it may be spent";
    Error::new(code, format!("{message}: {}", why.message())).with_source(refused)
}

/// What is recorded under the request id of an admission. A record that cannot be read now leaves a
/// denial as it is.
async fn recorded<P: Parts>(
    parts: &P,
    admission: &Admission<'_>,
    now: Now,
) -> Option<Result<Evidence>> {
    let request = record::request_id_key(admission)?;
    let name = record::name(admission.charges().first()?.key(), &request.id);
    let text = parts.record(&name).await.ok()??;
    record::replay_at(&text, admission, now.reading()).transpose()
}

/// The parts of an admission in the order in which they are charged.
fn legs<'a, P: Parts>(parts: &P, admission: &Admission<'a>) -> Vec<Leg<'a>> {
    let part = |charge: &Charge<'_>| parts.part_of(&charge.key());
    let home = admission.request_id.and(admission.charges().first()).map(part);
    let mut legs: Vec<(P::Part, Leg<'a>)> = Vec::new();
    for (place, charge) in admission.charges().iter().enumerate() {
        let part = part(charge);
        match legs.iter_mut().find(|(other, _)| *other == part) {
            Some((_, leg)) => leg.push(place, charge),
            None => {
                let is_home = home.as_ref() == Some(&part);
                let record = is_home.then(|| Recorded { admission: *admission, before: vec![] });
                let mut leg = Leg { charges: Vec::new(), record, places: Vec::new() };
                leg.push(place, charge);
                legs.push((part, leg));
            }
        }
    }
    legs.sort_by(|(part, leg), (other, next)| {
        (leg.record.is_some(), part).cmp(&(next.record.is_some(), other))
    });
    legs.into_iter().map(|(_, leg)| leg).collect()
}

/// Undoes what was charged, and reports the states of all keys.
async fn deny<P: Parts>(
    parts: &P,
    admission: &Admission<'_>,
    mut done: Vec<Charged<'_>>,
    (time, work): (TimeSource, &Detached),
) -> Evidence {
    let denied = done.pop();
    // A decision stands, whatever stays charged.
    drop(undo(parts, &done, (time, work)).await);
    done.extend(denied);
    let mut before = known(admission.charges().len(), &done);
    let missing = before.iter().enumerate().filter(|(_, state)| state.is_none());
    let rest: Vec<usize> = missing.map(|(place, _)| place).collect();
    let mut states = Vec::new();
    if !rest.is_empty() {
        let loaded = parts.load(&pick(admission.charges(), &rest), time.into()).await;
        states = loaded.map(|loaded| loaded.states).unwrap_or_default();
    }
    for (place, state) in rest.into_iter().zip(states) {
        if let Some(known) = before.get_mut(place) {
            *known = Some(state);
        }
    }
    Evidence::decided(instant(time), before.into_iter().map(Option::flatten).collect())
}

impl<'a> Leg<'a> {
    fn push(&mut self, place: usize, charge: &Charge<'a>) {
        self.places.push(place);
        self.charges.push(*charge);
    }

    /// Leaves nothing of the ranges above what earlier parts have for them.
    fn narrow(&mut self, bound: Cost) {
        for charge in &mut self.charges {
            if let Some((_, max)) = charge.range() {
                *charge = charge.up_to(max.min(bound));
            }
        }
    }
}

impl<'a> Charged<'a> {
    fn of(leg: Leg<'a>, evidence: Evidence) -> Result<Self> {
        let (slots, _) = slots_of(&leg.charges);
        let states = of_slots(&slots, &evidence.before);
        let plan = plan(&leg.charges, &slots, &states, evidence.now)?;
        let granted = plan.decisions.iter().map(Decision::granted);
        let granted = leg.charges.iter().zip(granted);
        let is_less = |(charge, granted): &(&Charge<'_>, Option<Cost>)| {
            charge.range().is_some_and(|(_, max)| *granted < Some(max))
        };
        let less = granted.clone().filter(is_less).filter_map(|(_, units)| units);
        let bound = less.min().unwrap_or(Cost::MAX);
        let exact = granted.map(|(charge, units)| charge.exactly(units.unwrap_or(charge.cost)));
        let charges = exact.collect();
        Ok(Self { charges, places: leg.places, before: evidence.before, plan, bound })
    }
}

fn instant(time: TimeSource) -> Now {
    match time {
        TimeSource::Given(at) => Now::at(at),
        TimeSource::StoreClock => Now::at(0),
    }
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

/// The state before each charge that was made.
fn known(charges: usize, done: &[Charged<'_>]) -> Vec<Option<Option<State>>> {
    let mut before = vec![None; charges];
    for leg in done {
        for (place, state) in leg.places.iter().zip(&leg.before) {
            if let Some(known) = before.get_mut(*place) {
                *known = Some(state.clone());
            }
        }
    }
    before
}

fn in_order(charges: usize, done: &[Charged<'_>]) -> Vec<Option<State>> {
    known(charges, done).into_iter().map(Option::flatten).collect()
}
