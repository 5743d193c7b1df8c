//! A refund never mints: the key owes at least what it would if the charge had never been made, and
//! what is said to have come back is what it owes less.

use tollgate_core::algorithm::Anchor;
use tollgate_core::{Cost, Micros, Now, Receipt, Rule};

use crate::model::{Kind, ModelQuota};
use crate::rng::Rng;
use crate::trace::random_quota;

/// Makes a few charges on each of `keys` keys, refunds one of them, and compares with the same key
/// without that charge: at no later instant may more be spendable. Nor may more be given back than
/// was still counted. Returns the units given back.
///
/// # Panics
/// When the property does not hold, naming the seed.
#[must_use = "a run that gave nothing back proves little"]
pub fn refund_never_mints(kind: Kind, seed: u64, keys: u64) -> u128 {
    let mut rng = Rng::new(seed);
    let mut refunded = 0;
    for key in 0..keys {
        let mut quota = random_quota(kind, &mut rng);
        // Without its first charge a window of `first_hit` would start elsewhere: not comparable.
        if let ModelQuota::FixedWindow { anchor, .. } = &mut quota {
            *anchor = Anchor::Epoch;
        }
        if let Ok(rule) = quota.rule() {
            let context = format!("key {key} of seed {seed:#x} under {quota:?}");
            refunded += u128::from(run_key(&quota, &rule, &mut rng, &context));
        }
    }
    refunded
}

/// A charge on a key without other charges is refunded in full at once.
///
/// # Panics
/// When the property does not hold, naming the seed.
pub fn refund_at_once_is_complete(kind: Kind, seed: u64, keys: u64) {
    let mut rng = Rng::new(seed);
    for key in 0..keys {
        let quota = random_quota(kind, &mut rng);
        let Ok(rule) = quota.rule() else { continue };
        // Receipts are in milliseconds: what comes back faster is not distinguished by them.
        if rule.horizon() / rule.ceiling().max(64) < 1_000 {
            continue;
        }
        let now = Now::at(1_700_000_000_000_000 + rng.below(1 << 40));
        let cost = draw_cost(&rule, &mut rng);
        let step = rule.step(&[], now, cost);
        let words = step.write.map_or_else(Vec::new, |write| write.words.to_vec());
        let refund =
            rule.refund(&words, now, cost, step.decision.receipt().unwrap_or(Receipt::Newest));
        assert_eq!(refund.units, cost.get(), "key {key} of seed {seed:#x} under {quota:?}");
        let after = refund.write.map_or(words, |write| write.words.to_vec());
        let left = rule.forecast(&after, now).spendable_now;
        assert_eq!(left, rule.ceiling(), "key {key} of seed {seed:#x} under {quota:?}");
    }
}

/// On a schedule, refunds one of a few charges on each of `keys` keys, between and after charges
/// of others: what comes back is the part of the charge that has not decayed, to the last fraction
/// of a microsecond, and the other charges stay. If no other charge came after it, the key is as if
/// the charge had never been made. Returns how many refunds gave back a part of a unit.
///
/// # Panics
/// When the property does not hold, naming the seed.
#[must_use = "a run that never met a part of a unit proves little"]
pub fn refund_is_what_is_left(kind: Kind, seed: u64, keys: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let mut parts = 0;
    for key in 0..keys {
        let quota = random_quota(kind, &mut rng);
        let Ok(rule) = quota.rule() else { continue };
        let [_, unit, scale, _] = rule.quota_id().0;
        // Receipts are in milliseconds: of faster units a millisecond has several.
        if unit / scale < 1_000 {
            continue;
        }
        let context = format!("key {key} of seed {seed:#x} under {quota:?}");
        parts += u64::from(run_schedule(&quota, &rule, &mut rng, &context));
    }
    parts
}

/// Whether a part of a unit was given back.
fn run_schedule(quota: &ModelQuota, rule: &Rule, rng: &mut Rng, context: &str) -> bool {
    let [_, unit, scale, _] = rule.quota_id().0.map(u128::from);
    let tat = |words: &[u64]| match words {
        [whole, fraction] => u128::from(*whole) * scale + u128::from(*fraction),
        _ => 0,
    };
    let horizon = rule.horizon().clamp(1, 1 << 48);
    let mut time: Micros = 1_700_000_000_000_000 + rng.below(1 << 40);
    let (charges, refunded) = (rng.between(1, 6), rng.below(6));
    let (mut words, mut before) = (Vec::new(), Vec::new());
    let mut charge = None;
    for number in 0..charges {
        let (now, cost) = (Now::at(time), draw_cost(rule, rng));
        let step = rule.step(&words, now, cost);
        if let (Some(write), Some(receipt)) = (step.write, step.decision.receipt()) {
            before = core::mem::replace(&mut words, write.words.to_vec());
            if number <= refunded {
                charge = Some((cost, receipt, tat(&words)));
            }
        }
        time += step_of(rng, quota, horizon);
    }
    let Some((cost, receipt, end)) = charge else { return false };
    let now = u128::from(time) * scale;
    let given = end.saturating_sub(now).min(unit * u128::from(cost.get()));
    let refund = rule.refund(&words, Now::at(time), cost, receipt);
    let units = u64::try_from(given.div_ceil(unit)).unwrap_or(u64::MAX);
    assert_eq!(refund.units, units, "units at {time}: {context}");
    let after = refund.write.map_or_else(|| tat(&words), |write| tat(&write.words));
    assert_eq!(after.max(now), tat(&words).max(now) - given, "the schedule at {time}: {context}");
    if end == tat(&words) {
        assert_eq!(after.max(now), tat(&before).max(now), "as if uncharged at {time}: {context}");
    }
    !given.is_multiple_of(unit)
}

fn run_key(quota: &ModelQuota, rule: &Rule, rng: &mut Rng, context: &str) -> u64 {
    let horizon = rule.horizon().clamp(1, 1 << 48);
    let mut time: Micros = 1_700_000_000_000_000 + rng.below(1 << 40);
    let spared = rng.below(5);
    // The same key with and without the charge.
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let mut receipt = None;
    for number in 0..rng.between(spared + 1, 6) {
        let now = Now::at(time);
        let cost = draw_cost(rule, rng);
        let step = rule.step(&with, now, cost);
        if let Some(write) = step.write {
            with = write.words.to_vec();
            if number == spared {
                receipt = Some((cost, step.decision.receipt().unwrap_or(Receipt::Newest)));
            } else if let Some(write) = rule.step(&without, now, cost).write {
                without = write.words.to_vec();
            }
        }
        time += step_of(rng, quota, horizon);
    }
    let Some((cost, receipt)) = receipt else {
        return 0;
    };
    let refund = rule.refund(&with, Now::at(time), cost, receipt);
    let Some(write) = refund.write else { return 0 };
    assert!(refund.units <= cost.get(), "more than was taken: {context}");
    let owed = |words: &[u64]| rule.debt(words, Now::at(time)).units;
    let counted = owed(&with) - owed(&write.words);
    assert!(refund.units <= counted, "{} instead of {counted}: {context}", refund.units);
    for _ in 0..8 {
        let now = Now::at(time);
        let left = rule.forecast(&write.words, now).spendable_now;
        let right = rule.forecast(&without, now).spendable_now;
        assert!(left <= right, "{left} spendable instead of {right} at {time}: {context}");
        time += step_of(rng, quota, horizon);
    }
    refund.units
}

/// From nothing over sub-milliseconds, where receipts are blurred, to a good part of the horizon.
fn step_of(rng: &mut Rng, quota: &ModelQuota, horizon: Micros) -> Micros {
    match rng.below(4) {
        0 => 0,
        1 => rng.below(1_200),
        2 => rng.below(horizon / quota.ceiling().max(1) + 2),
        _ => rng.of_any_size(horizon),
    }
}

fn draw_cost(rule: &Rule, rng: &mut Rng) -> Cost {
    let most = rule.ceiling().min(Cost::MAX.get());
    Cost::new(rng.of_any_size(most)).unwrap_or(Cost::ONE)
}
