//! From the evidence of a store to one decision: the steps again, and the merge of several.

use core::cmp::Reverse;

use crate::algorithm::migrate_state;
use crate::charge::{Admission, Charge, Operation};
use crate::decision::{Decision, Verdict};
use crate::error::{Code, Error, Result};
use crate::limit::Limit;
use crate::settled::{Settled, Settlement};
use crate::state::{QuotaId, State};
use crate::store::{Evidence, Plan, plan, slots_of};
use crate::time::{Micros, Now};

/// What an admission came to.
#[derive(Debug)]
pub(super) struct Derived {
    pub(super) decision: Decision,
    /// What settling did to each charge; under a request id the same at every replay. Empty where
    /// none is settled.
    settled: Vec<Settlement>,
}

impl Derived {
    pub(super) fn each_settled(&self) -> &[Settlement] {
        &self.settled
    }

    pub(super) fn settled(self) -> Settled {
        Settled { each: self.settled, standing: self.decision }
    }
}

/// The decision of an admission.
pub(super) fn derive(admission: &Admission<'_>, evidence: &Evidence) -> Result<Derived> {
    let charges = admission.charges();
    if let ([charge], [before], None) = (charges, &*evidence.before, &evidence.replayed)
        && charge.operation == Operation::Take
    {
        let decision = alone(charge, before.as_ref(), evidence.now)?;
        let decision = decision.decided_at(evidence.now.reading());
        return Ok(Derived { decision, settled: Vec::new() });
    }
    let planned = match &evidence.replayed {
        None => run(charges, evidence)?,
        Some(quota_ids) => replay(charges, quota_ids, evidence)?,
    };
    let decision = merge(charges, planned.decisions).ok_or_else(no_evidence)?;
    let mut decision = decision.decided_at(evidence.now.reading());
    if evidence.replayed.is_some() {
        decision = decision.replayed();
    }
    Ok(Derived { decision, settled: planned.settled })
}

/// The decision of one charge. What [`plan`] does for several comes to the same, with more memory.
fn alone(charge: &Charge<'_>, before: Option<&State>, now: Now) -> Result<Decision> {
    let rule = charge.rule();
    let Some(state) = before else { return Ok(rule.step(&[], now, charge.cost).decision) };
    let carried = migrate_state(rule, state, now)?;
    let words = carried.as_ref().map_or(&state.words, |carried| &carried.state.words);
    Ok(rule.step(words, now, charge.cost).decision)
}

/// The decision of an admission if all of its keys were fresh: `never` exactly if it always is.
pub(super) fn on_fresh_keys(admission: &Admission<'_>, now: Micros) -> Result<Decision> {
    let fresh = Evidence::decided(Now::at(now), vec![None; admission.charges().len()]);
    derive(admission, &fresh).map(|derived| derived.decision)
}

/// A store returned less evidence than there are charges.
pub(super) fn no_evidence() -> Error {
    Error::new(Code::CorruptState, "a store answered without evidence")
}

/// The steps again, over the evidence of a store.
pub(super) fn run(charges: &[Charge<'_>], evidence: &Evidence) -> Result<Plan> {
    // A state that is missing must never pass for a fresh key.
    if evidence.before.len() != charges.len() {
        return Err(no_evidence());
    }
    if let Some(instants) = &evidence.instants {
        return run_each(charges, evidence, instants);
    }
    let (slots, keys) = slots_of(charges);
    let before: Vec<Option<State>> = (0..keys.len())
        .map(|slot| {
            let first = slots.iter().position(|of| *of == slot)?;
            evidence.before.get(first).cloned().flatten()
        })
        .collect();
    plan(charges, &slots, &before, evidence.now)
}

/// The steps of charges that were decided at several instants. Those of one key were decided at
/// one, and none was denied.
fn run_each(charges: &[Charge<'_>], evidence: &Evidence, instants: &[Now]) -> Result<Plan> {
    if instants.len() != charges.len() {
        return Err(no_evidence());
    }
    let mut each = vec![None; charges.len()];
    for (place, instant) in instants.iter().enumerate() {
        if each.get(place).is_some_and(Option::is_some) {
            continue;
        }
        let places: Vec<usize> =
            (place..charges.len()).filter(|place| instants.get(*place) == Some(instant)).collect();
        let own: Vec<Charge<'_>> =
            places.iter().filter_map(|place| charges.get(*place).copied()).collect();
        let before = places.iter().map(|place| evidence.before.get(*place).cloned().flatten());
        let planned = run(&own, &Evidence::decided(*instant, before.collect()))?;
        let decided = planned.decisions.into_iter().zip(planned.settled);
        for (place, decided) in places.into_iter().zip(decided) {
            if let Some(one) = each.get_mut(place) {
                *one = Some(decided);
            }
        }
    }
    let each: Option<Vec<_>> = each.into_iter().collect();
    let (decisions, settled) = each.ok_or_else(no_evidence)?.into_iter().unzip();
    // What was written is known to each part alone.
    Ok(Plan { decisions, settled, writes: Vec::new(), admitted: true })
}

/// A replay is derived under the quotas of the first time, whatever they are now.
fn replay(charges: &[Charge<'_>], quota_ids: &[QuotaId], evidence: &Evidence) -> Result<Plan> {
    if quota_ids.len() != charges.len() {
        return Err(no_evidence());
    }
    let limits: Vec<Limit> = charges
        .iter()
        .zip(quota_ids)
        .map(|(charge, quota_id)| {
            if *quota_id == charge.rule().quota_id() {
                return Ok(charge.limit.clone());
            }
            let first = charge.rule().recall(*quota_id).ok_or_else(unknown_quota)?;
            Ok(charge.limit.clone().replace_rule(first))
        })
        .collect::<Result<_>>()?;
    let charges: Vec<Charge<'_>> =
        charges.iter().zip(&limits).map(|(charge, limit)| charge.under(limit)).collect();
    run(&charges, evidence)
}

/// Another decision than the first one must not be made up.
fn unknown_quota() -> Error {
    let message = "the request id was charged under a quota that is not known here";
    Error::new(Code::CorruptState, message)
}

/// Allowed if all are, never if any is. The numbers are those of one limit, the binding one: of
/// those with the verdict of the whole the one with the longest wait, or else the fewest units
/// left, then the latest reset. Only the delay is the longest of all, because a request waits for
/// every shaper.
pub(super) fn merge(charges: &[Charge<'_>], mut decisions: Vec<Decision>) -> Option<Decision> {
    if let [_] = charges {
        return decisions.pop();
    }
    let verdict = decisions.iter().map(|decision| decision.verdict).max()?;
    let deciding = charges.iter().zip(&decisions).filter(|(_, one)| one.verdict == verdict);
    // The first among equals.
    let (charge, binding) = deciding.min_by_key(|(_, one)| {
        (Reverse(one.retry_after_ms), one.remaining, Reverse(one.reset_at_ms))
    })?;
    let Decision { limit, remaining, reset_at_ms, retry_after_ms, .. } = *binding;
    let merged = match verdict {
        Verdict::Allowed => {
            let delay_ms = decisions.iter().map(|one| one.delay_ms).max().unwrap_or(0);
            Decision::allowed(limit, remaining, reset_at_ms).after(delay_ms)
        }
        Verdict::Denied => {
            Decision::denied(limit, remaining, reset_at_ms, retry_after_ms.unwrap_or(1))
        }
        Verdict::Never => Decision::never(limit, remaining, reset_at_ms),
    };
    let granted = decisions.iter().filter_map(Decision::granted).min();
    let merged = merged.granting(granted);
    Some(merged.of_parts(charge.limit.policy().clone(), decisions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Gcra, SlidingLog, SlidingWindow};
    use crate::cost::Cost;
    use crate::quota::Quota;
    use crate::rule::Rule;

    /// The short way for one charge decides as the way for several does, also across quotas.
    #[test]
    fn one_charge_is_decided_as_a_plan_decides_it() {
        let quota = |units| Quota::new(units, core::time::Duration::from_secs(1));
        let rules = [
            Rule::new(Gcra::new(quota(5)).unwrap()),
            Rule::new(Gcra::new(quota(3)).unwrap()),
            Rule::new(SlidingWindow::new(quota(4)).unwrap()),
            Rule::new(SlidingLog::new(quota(4)).unwrap()),
        ];
        let mut state: Option<State> = None;
        let mut verdicts = [0; 3];
        for step in 0..2_000_u64 {
            let rule = rules[usize::try_from(step / 40 % 4).unwrap()].clone();
            let limit = Limit::with_rule("one", rule).unwrap();
            let charge = limit.charge("x").cost(Cost::new(1 + step % 6).unwrap());
            let now = Now::at(1_700_000_000_000_000 + step * 130_000);
            let evidence = Evidence::decided(now, vec![state.clone()]);
            let planned = run(&[charge], &evidence).unwrap();
            let decision = derive(&Admission::from(charge), &evidence).unwrap().decision;
            assert_eq!(decision.parts(), planned.decisions, "step {step}");
            verdicts[decision.verdict as usize] += 1;
            if let Some(write) = planned.writes.into_iter().next() {
                state = Some(write.state);
            }
        }
        assert!(verdicts.iter().all(|count| *count > 100), "{verdicts:?}");
    }
}
