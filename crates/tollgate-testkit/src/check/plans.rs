//! Several charges at once: `plan` against one model per key.
//!
//! All or nothing, from its definition: the charges are made in order on copies of the models; if
//! all are allowed the copies are kept, and otherwise nothing is but what a changed quota carried
//! over, and every decision reports uncharged numbers. Ranges take the largest number of units,
//! each as far as it goes, with which all charges are allowed.

use tollgate_core::store::{plan, slots_of};
use tollgate_core::{Charge, Cost, Decision, Limit, Micros, Now, State, Verdict};

use crate::model::{Kind, Model, largest};
use crate::rng::Rng;
use crate::trace::{changed_quota, random_quota};

/// How many keys an admission can touch.
const KEYS: usize = 3;

/// Compares `plan` with the model over `steps` random admissions of one to four charges on three
/// keys. Returns how many were admitted and how many were not.
///
/// # Panics
/// When they differ, naming the seed.
#[must_use = "a run that admits or denies nothing proves little"]
pub fn plans_agree_with_model(seed: u64, steps: u64) -> (u64, u64) {
    let mut rng = Rng::new(seed);
    let mut keys: Vec<KeyPair> = Vec::new();
    let mut tally = (0, 0);
    let mut time: Micros = 0;
    for step in 0..steps {
        if step.is_multiple_of(100) {
            keys = (0..KEYS).filter_map(|_| KeyPair::random(&mut rng)).collect();
            time = 1_700_000_000_000_000;
        }
        if rng.one_in(50) {
            keys.iter_mut().for_each(|key| key.change(&mut rng));
        }
        time = match rng.below(8) {
            0 => time.saturating_sub(rng.below(2_000_000)),
            1 => time + rng.of_any_size(1 << 36),
            _ => time + rng.below(100_000),
        };
        let asked: Vec<Asked> = (0..rng.between(1, 4)).map(|_| draw(&keys, &mut rng)).collect();
        let context = format!("step {step} of seed {seed:#x}: {asked:?} on {keys:?}");
        if admit(&mut keys, &asked, Now::at(time), &context) {
            tally.0 += 1;
        } else {
            tally.1 += 1;
        }
    }
    tally
}

/// One charge: the key, the units, and the most of a range.
#[derive(Clone, Copy, Debug)]
struct Asked {
    key: usize,
    cost: Cost,
    max: Option<Cost>,
}

impl Asked {
    /// The charge for exactly these units, as far as its range goes.
    fn exactly(self, units: Cost) -> (usize, Cost) {
        let cost = self.max.map_or(self.cost, |max| units.clamp(self.cost, max.max(self.cost)));
        (self.key, cost)
    }
}

/// A key as the store keeps it and as mathematics.
#[derive(Debug)]
struct KeyPair {
    limit: Limit,
    state: Option<State>,
    model: Model,
}

impl KeyPair {
    fn random(rng: &mut Rng) -> Option<Self> {
        let kind = rng.pick(&Kind::ALL, Kind::Gcra);
        let quota = random_quota(kind, rng);
        let limit = Limit::with_rule("plan", quota.rule().ok()?).ok()?;
        Some(Self { limit, state: None, model: Model::new(quota) })
    }

    fn change(&mut self, rng: &mut Rng) {
        let quota = changed_quota(self.model.quota(), &Kind::ALL, rng);
        if let Ok(rule) = quota.rule() {
            self.limit = self.limit.clone().replace_rule(rule);
            self.model.change(quota);
        }
    }
}

fn draw(keys: &[KeyPair], rng: &mut Rng) -> Asked {
    let index = rng.pick(&[0, 1, 2], 0);
    let ceiling = keys.get(index).map_or(1, |key| key.limit.rule().ceiling());
    let units = rng.of_any_size(ceiling.saturating_add(1).min(Cost::MAX.get()));
    let cost = Cost::new(units).unwrap_or(Cost::ONE);
    let max = rng.one_in(4).then(|| Cost::new(rng.between(1, 2 * units)).unwrap_or(Cost::MAX));
    Asked { key: index, cost, max }
}

/// One admission both ways; whether it was admitted.
fn admit(keys: &mut [KeyPair], asked: &[Asked], now: Now, context: &str) -> bool {
    let subjects: Vec<String> = (0..keys.len()).map(|index| index.to_string()).collect();
    let charges: Vec<Charge<'_>> = asked
        .iter()
        .filter_map(|asked| {
            let (key, subject) = (keys.get(asked.key)?, subjects.get(asked.key)?);
            let charge = key.limit.charge(subject).cost(asked.cost);
            Some(asked.max.map_or(charge, |max| charge.up_to(max)))
        })
        .collect();
    let (slots, in_slots) = slots_of(&charges);
    let index_of: Vec<usize> = in_slots.iter().filter_map(|key| key.subject.parse().ok()).collect();
    let states: Vec<Option<State>> =
        index_of.iter().map(|index| keys.get(*index).and_then(|key| key.state.clone())).collect();
    let planned = plan(&charges, &slots, &states, now);
    let models: Vec<Model> = keys.iter().map(|key| key.model.clone()).collect();
    let (expected, models) = expected(models, asked, now);
    match planned {
        Ok(plan) => {
            assert_eq!(plan.decisions, expected, "{context}");
            let admitted = expected.iter().all(Decision::is_allowed);
            assert_eq!(plan.admitted, admitted, "{context}");
            for write in plan.writes {
                let key = index_of.get(write.slot).and_then(|index| keys.get_mut(*index));
                if let Some(key) = key {
                    key.state = Some(write.state);
                }
            }
            keys.iter_mut().zip(models).for_each(|(key, model)| key.model = model);
            admitted
        }
        Err(error) => {
            assert!(expected.is_empty(), "{error}: {context}");
            false
        }
    }
}

/// What the models decide, and the models afterwards.
fn expected(before: Vec<Model>, asked: &[Asked], now: Now) -> (Vec<Decision>, Vec<Model>) {
    let mut uncharged = before;
    for Asked { key, .. } in asked {
        if let Some(model) = uncharged.get_mut(*key) {
            model.meet(now);
        }
    }
    let exactly = |units| asked.iter().map(|one| one.exactly(units)).collect::<Vec<_>>();
    let most = asked.iter().filter_map(|one| one.max).max().unwrap_or(Cost::ONE);
    let most = asked.iter().map(|one| one.cost).max().unwrap_or(most).max(most);
    let is_allowed = |units| {
        let (decisions, _) = expected_exactly(uncharged.clone(), &exactly(units), now);
        decisions.iter().all(Decision::is_allowed)
    };
    let granted = largest(Cost::ONE, most, is_allowed);
    let exact = exactly(granted.unwrap_or(Cost::ONE));
    let (mut decisions, models) = expected_exactly(uncharged, &exact, now);
    for ((asked, (_, units)), decision) in asked.iter().zip(exact).zip(&mut decisions) {
        *decision = decision.clone().granting(granted.and(asked.max).map(|_| units));
    }
    (decisions, models)
}

/// The same without ranges.
fn expected_exactly(
    uncharged: Vec<Model>,
    asked: &[(usize, Cost)],
    now: Now,
) -> (Vec<Decision>, Vec<Model>) {
    let mut charged = uncharged.clone();
    let mut asked_of = [0_u64; KEYS];
    let mut decisions = Vec::with_capacity(asked.len());
    for (index, cost) in asked {
        let (Some(model), Some(sum)) = (charged.get_mut(*index), asked_of.get_mut(*index)) else {
            continue;
        };
        *sum += cost.get();
        decisions.push(model.check(now, *cost));
    }
    if decisions.iter().all(Decision::is_allowed) {
        return (decisions, charged);
    }
    for (number, (decision, (index, cost))) in decisions.iter_mut().zip(asked).enumerate() {
        let Some(model) = uncharged.get(*index) else { continue };
        let peek = model.peek(now, *cost);
        decision.remaining = peek.remaining;
        decision.reset_at_ms = peek.reset_at_ms;
        decision.delay_ms = peek.delay_ms;
        let sum = asked_of.get(*index).copied().unwrap_or(0);
        let is_last = asked.iter().skip(number + 1).all(|(other, _)| other != index);
        // The last of those that share a key says when all of them are granted, if ever.
        if sum > cost.get() && is_last {
            if sum > model.quota().ceiling() {
                decision.verdict = Verdict::Never;
                decision.retry_after_ms = None;
            } else if let Ok(together) = Cost::new(sum) {
                let look = model.peek(now, together);
                decision.verdict = look.verdict;
                decision.retry_after_ms = look.retry_after_ms;
            }
        }
    }
    (decisions, uncharged)
}
