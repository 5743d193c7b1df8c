//! Decisions from evidence, as a limiter derives them.
//!
//! A store returns the instant and the states before; the pure steps turn that into decisions. A
//! replayed admission is derived under the quotas of the first time, which its record names.

use tollgate_core::algorithm::built_in;
use tollgate_core::store::{Evidence, Plan, plan, slots_of};
use tollgate_core::{Admission, Charge, Code, Error, Limit, Now, QuotaId, Result, Rule, State};

/// What the store decided, derived from its evidence.
///
/// # Errors
/// `corrupt_state` when the evidence does not fit the admission.
pub fn decisions_of(admission: &Admission<'_>, outcome: &Evidence) -> Result<Plan> {
    let Some(quota_ids) = &outcome.replayed else {
        return derive(admission.charges(), outcome);
    };
    if quota_ids.len() != admission.charges().len() {
        return Err(misfit("a record names another number of quotas than there are charges"));
    }
    let limits: Vec<Limit> = admission
        .charges()
        .iter()
        .zip(quota_ids)
        .map(|(charge, quota_id)| {
            Ok(charge.limit.clone().replace_rule(rule_of(charge, *quota_id)?))
        })
        .collect::<Result<_>>()?;
    let charges: Vec<Charge<'_>> = admission
        .charges()
        .iter()
        .zip(&limits)
        .map(|(charge, limit)| charge.under(limit))
        .collect();
    derive(&charges, outcome)
}

/// The algorithm of a shape: the charge's own if it is that, else the built-in one.
fn rule_of(charge: &Charge<'_>, quota_id: QuotaId) -> Result<Rule> {
    if charge.rule().quota_id() == quota_id {
        return Ok(charge.rule().clone());
    }
    built_in(quota_id).ok_or_else(|| misfit("a record names an unknown quota"))
}

fn derive(charges: &[Charge<'_>], outcome: &Evidence) -> Result<Plan> {
    if outcome.before.len() != charges.len() {
        return Err(misfit("a store returned another number of states than there are charges"));
    }
    if let Some(instants) = &outcome.instants {
        return derive_each(charges, outcome, instants);
    }
    let (slots, keys) = slots_of(charges);
    // Evidence is per charge; a slot's state is what its first charge found.
    let states: Vec<Option<State>> = (0..keys.len())
        .map(|slot| {
            let first = slots.iter().position(|of_charge| *of_charge == slot);
            first.and_then(|charge| outcome.before.get(charge).cloned().flatten())
        })
        .collect();
    plan(charges, &slots, &states, outcome.now)
}

/// Settlements on keys that were not settled at one instant: each is derived for itself. Two of one
/// key are not among them.
fn derive_each(charges: &[Charge<'_>], outcome: &Evidence, instants: &[Now]) -> Result<Plan> {
    let mut all = derive(&[], &Evidence::decided(outcome.now, Vec::new()))?;
    for ((charge, before), instant) in charges.iter().zip(&outcome.before).zip(instants) {
        let one = Evidence::decided(*instant, vec![before.clone()]);
        let plan = derive(core::slice::from_ref(charge), &one)?;
        all.decisions.extend(plan.decisions);
        all.settled.extend(plan.settled);
    }
    Ok(all)
}

fn misfit(message: &str) -> Error {
    Error::new(Code::CorruptState, message)
}
