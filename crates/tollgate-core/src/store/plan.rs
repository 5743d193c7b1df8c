//! One admission over loaded states, purely: shared by every store that runs steps in Rust, and by
//! the limiter, which derives the decisions of scripted stores from their evidence.

use crate::algorithm::{Carried, Step, migrate_state, next_state};
use crate::charge::{Charge, Operation};
use crate::cost::Cost;
use crate::decision::{Decision, Verdict};
use crate::error::{Code, Error, Result};
use crate::key::Key;
use crate::rule::Rule;
use crate::settled::Settlement;
use crate::state::{QuotaId, QuotaState, State, Words};
use crate::time::Now;

use super::ranges::Ranges;
use super::settle::{Effect, settle};

/// What an admission decided, and what is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The decision of each charge. Unless all are allowed, their numbers are uncharged.
    pub decisions: Vec<Decision>,
    /// What settling did to each charge; nothing to those that take units.
    pub settled: Vec<Settlement>,
    /// The last write of each slot, in the order of the slots. A denied admission writes only what
    /// a changed quota made it carry over.
    pub writes: Vec<SlotWrite>,
    /// Whether every charge was allowed.
    pub admitted: bool,
}

/// The next state of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotWrite {
    /// Which of the loaded states it replaces.
    pub slot: usize,
    /// The state to keep.
    pub state: State,
    /// From this instant on the state means the same as none.
    pub fresh_at: u64,
}

/// Maps charges to slots, so that two charges on one key share one: the slot of each charge, and
/// the key of each slot.
#[must_use]
pub fn slots_of<'a>(charges: &[Charge<'a>]) -> (Vec<usize>, Vec<Key<'a>>) {
    let mut keys: Vec<Key<'a>> = Vec::with_capacity(charges.len());
    let slots = charges
        .iter()
        .map(|charge| {
            let key = charge.key();
            keys.iter().position(|known| *known == key).unwrap_or_else(|| {
                keys.push(key);
                keys.len() - 1
            })
        })
        .collect();
    (slots, keys)
}

/// Runs the steps of one admission in order over the states of its slots.
///
/// Two charges on one key see each other. If any is not allowed, none is charged and every decision
/// reports uncharged numbers. Ranges are granted as [`Charge::up_to`] says.
///
/// # Errors
/// `corrupt_state` when a state cannot be read; then nothing is to be written.
pub fn plan(
    charges: &[Charge<'_>],
    slots: &[usize],
    states: &[Option<State>],
    now: Now,
) -> Result<Plan> {
    match Ranges::of(charges) {
        Some(ranges) => ranges.plan(slots, states, now),
        None => plan_exactly(charges, slots, states, now),
    }
}

/// The plan of charges without a range.
pub(super) fn plan_exactly(
    charges: &[Charge<'_>],
    slots: &[usize],
    states: &[Option<State>],
    now: Now,
) -> Result<Plan> {
    let mut run = Run::new(states);
    let mut decisions = Vec::with_capacity(charges.len());
    let mut settled = Vec::with_capacity(charges.len());
    for (number, (charge, &slot)) in charges.iter().zip(slots).enumerate() {
        let (decision, settlement) = run.apply((number, charge), slot, now)?;
        decisions.push(decision);
        settled.push(settlement);
    }
    let admitted = decisions.iter().all(Decision::is_allowed);
    if !admitted {
        let charges = charges.iter().enumerate();
        for ((numbered, &slot), decision) in charges.zip(slots).zip(&mut decisions) {
            run.uncharge(numbered, slot, now, decision);
        }
        settled.fill(Settlement::NOTHING);
    }
    Ok(Plan { decisions, settled, writes: run.writes(admitted), admitted })
}

/// The state before of each charge, from those of the slots.
pub(super) fn before_each(slots: &[usize], states: Vec<Option<State>>) -> Vec<Option<State>> {
    // As many slots as charges: they are in the same order already.
    if slots.len() == states.len() {
        return states;
    }
    let before = slots.iter().map(|&slot| states.get(slot).cloned().flatten());
    before.collect()
}

/// A slot while an admission runs over it.
struct Slot<'a> {
    original: Option<&'a State>,
    /// The state before any charge, if a changed quota made it carry over.
    carried: Option<SlotWrite>,
    /// The newest state, if it differs from the original.
    written: Option<SlotWrite>,
    /// What all charges of one rule on this slot take together.
    together: Option<Together>,
}

/// Charges of one rule that share a slot: what counts is when all of them are granted, if ever.
struct Together {
    quota_id: QuotaId,
    units: u64,
    /// The number of the last of them, and how many they are.
    last: usize,
    count: usize,
}

impl Slot<'_> {
    fn current(&self) -> Option<&State> {
        self.written.as_ref().map(|written| &written.state).or(self.original)
    }

    /// The newest state under other quotas.
    fn others(&self) -> &[QuotaState] {
        self.current().map_or(&[], |state| &state.others)
    }

    fn uncharged(&self) -> Option<&State> {
        self.carried.as_ref().map(|carried| &carried.state).or(self.original)
    }
}

struct Run<'a> {
    slots: Vec<Slot<'a>>,
}

impl<'a> Run<'a> {
    fn new(states: &'a [Option<State>]) -> Self {
        let fresh = |state: &'a Option<State>| Slot {
            original: state.as_ref(),
            carried: None,
            written: None,
            together: None,
        };
        Self { slots: states.iter().map(fresh).collect() }
    }

    fn apply(
        &mut self,
        (number, charge): (usize, &Charge<'_>),
        index: usize,
        now: Now,
    ) -> Result<(Decision, Settlement)> {
        let slot = self.slots.get_mut(index).ok_or_else(|| {
            Error::new(Code::CorruptState, "a store returned fewer states than keys")
        })?;
        let rule = charge.rule();
        if let Some(state) = slot.current()
            && let Some(carried) = migrate_state(rule, state, now)?
        {
            let Carried { state, fresh_at, is_first } = carried;
            let carried = SlotWrite { slot: index, state, fresh_at };
            // Only a state that no charge of this admission has touched is uncharged.
            if slot.written.is_none() && is_first {
                slot.carried = Some(carried.clone());
            }
            slot.written = Some(carried);
        }
        let words = words_of(slot.current());
        let (decision, settlement, charged, write) = match charge.operation {
            Operation::Take | Operation::TakeUpTo(_) => {
                let Step { decision, write } = rule.step(words, now, charge.cost);
                (decision, Settlement::NOTHING, Some(charge.cost), write)
            }
            Operation::Settle { receipt, to } => {
                let Effect { settlement, charged, write } =
                    settle(charge, (receipt, to), words, now);
                let after = write.as_ref().map_or(words, |write| &write.words);
                (standing(charge, after, now), settlement, charged, write)
            }
        };
        if let Some(write) = write {
            let others = (slot.others(), charged);
            let (state, fresh_at) = next_state(rule, write, others, now)?;
            slot.written = Some(SlotWrite { slot: index, state, fresh_at });
        }
        if charge.operation.takes() {
            slot.count(number, charge);
        }
        Ok((decision, settlement))
    }

    /// Puts uncharged numbers into the decision of a charge whose admission was denied.
    fn uncharge(
        &self,
        (number, charge): (usize, &Charge<'_>),
        index: usize,
        now: Now,
        decision: &mut Decision,
    ) {
        let Some(slot) = self.slots.get(index) else { return };
        let words = slot.uncharged_as(charge.rule(), now);
        let uncharged = match charge.operation {
            Operation::Take | Operation::TakeUpTo(_) => {
                charge.rule().peek(&words, now, charge.cost)
            }
            Operation::Settle { .. } => standing(charge, &words, now),
        };
        decision.remaining = uncharged.remaining;
        decision.reset_at_ms = uncharged.reset_at_ms;
        decision.delay_ms = uncharged.delay_ms;
        decision.charged = false;
        if let Some(together) = &slot.together
            && together.count > 1
            && together.last == number
        {
            together.decide(charge.rule(), &words, now, decision);
        }
    }

    fn writes(self, admitted: bool) -> Vec<SlotWrite> {
        let last = |slot: Slot<'a>| if admitted { slot.written } else { slot.carried };
        self.slots.into_iter().filter_map(last).collect()
    }
}

impl Slot<'_> {
    /// Adds a charge to those it shares the slot and the rule with.
    fn count(&mut self, number: usize, charge: &Charge<'_>) {
        let (quota_id, cost) = (charge.rule().quota_id(), charge.cost.get());
        match &mut self.together {
            Some(together) if together.quota_id == quota_id => {
                together.units = together.units.saturating_add(cost);
                together.last = number;
                together.count += 1;
            }
            other => *other = Some(Together { quota_id, units: cost, last: number, count: 1 }),
        }
    }

    /// The uncharged state as this rule reads it: another charge may have come with another quota.
    fn uncharged_as(&self, rule: &Rule, now: Now) -> Words {
        let state = self.uncharged();
        words_under(rule, state, now).unwrap_or_else(|_| Words::new(words_of(state)))
    }
}

impl Together {
    /// Each charge alone may be granted, or one day; here is what holds for all of them.
    fn decide(&self, rule: &Rule, words: &[u64], now: Now, decision: &mut Decision) {
        if self.units > rule.ceiling() {
            decision.verdict = Verdict::Never;
            decision.retry_after_ms = None;
        } else if let Ok(cost) = Cost::new(self.units) {
            let peeked = rule.peek(words, now, cost);
            // A denial has other reasons too: charges of another rule between these, or a step for
            // which a sum is not what its parts are.
            if !peeked.is_allowed() {
                decision.verdict = peeked.verdict;
                decision.retry_after_ms = peeked.retry_after_ms;
            }
        }
    }
}

/// A state as this rule reads it, carried over if it is of another quota.
pub(crate) fn words_under(rule: &Rule, state: Option<&State>, now: Now) -> Result<Words> {
    let Some(state) = state else { return Ok(Words::new(&[])) };
    let carried = migrate_state(rule, state, now)?;
    Ok(carried.map_or_else(|| state.words.clone(), |carried| carried.state.words))
}

fn words_of(state: Option<&State>) -> &[u64] {
    state.map_or(&[], |state| &state.words)
}

/// How a key stands: always allowed, with the numbers of an uncharged peeked.
fn standing(charge: &Charge<'_>, words: &[u64], now: Now) -> Decision {
    let peeked = charge.rule().peek(words, now, Cost::ONE);
    Decision::allowed(peeked.limit, peeked.remaining, peeked.reset_at_ms).uncharged()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Limit;
    use crate::quota::Quota;

    /// Each of the charges may be granted one day, and neither counts for the quota of the other.
    #[test]
    fn charges_of_two_quotas_on_one_key_are_not_taken_together() {
        let limits = [5, 6].map(|units| Limit::gcra("one", Quota::per_minute(units)).unwrap());
        let cost = |units| Cost::new(units).unwrap();
        let charges = [limits[0].charge("x").cost(cost(4)), limits[1].charge("x").cost(cost(5))];
        let (slots, keys) = slots_of(&charges);
        assert_eq!(keys.len(), 1);
        let planned = plan(&charges, &slots, &[None], Now::at(0)).unwrap();
        let verdicts: Vec<Verdict> = planned.decisions.iter().map(|one| one.verdict).collect();
        assert_eq!(verdicts, [Verdict::Allowed, Verdict::Denied]);
        let two = [limits[1].charge("x").cost(cost(4)), limits[1].charge("x").cost(cost(5))];
        let planned = plan(&two, &slots, &[None], Now::at(0)).unwrap();
        assert_eq!(planned.decisions.last().map(|one| one.verdict), Some(Verdict::Never));
    }
}
