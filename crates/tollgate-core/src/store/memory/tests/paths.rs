//! The fast path and the general path decide alike, whatever came before.

use core::time::Duration;

use super::*;
use crate::charge::{Admission, Receipt};
use crate::store::plan::{plan, slots_of};

/// The decision of the general path: from its evidence, by the pure step.
fn admit(memory: &Memory, charge: &Charge<'_>, at: Micros) -> Decision {
    let charges = [*charge];
    let outcome = memory.admit_sync(&Admission::of(&charges), at).unwrap();
    let (slots, _) = slots_of(&charges);
    plan(&charges, &slots, &outcome.before, outcome.now).unwrap().decisions.pop().unwrap()
}

struct Trace<'a> {
    limits: &'a [Limit],
    subjects: u64,
    /// How far the clock goes at a step, at most; now and then it goes back.
    stride: Micros,
    /// One in this many steps is under another quota.
    changes: u64,
}

/// Runs a random trace on two stores, each by its own path. Fingerprints are the same in both, so
/// they even evict alike.
fn agree(name: &str, max_keys: usize, trace: &Trace<'_>, rng: &mut Rng) {
    let (fast, general) = (store(max_keys), store(max_keys));
    let (mut at, mut current) = (T0, rng.pick(trace.limits));
    for step in 0..4_000 {
        at = match rng.below(20) {
            0 => at.saturating_sub(rng.below(trace.stride * 20)),
            1 => at + rng.below(trace.stride * 20),
            _ => at + rng.below(trace.stride),
        };
        if rng.below(trace.changes) == 0 {
            current = rng.pick(trace.limits);
        }
        let subject = format!("user:{}", rng.below(trace.subjects));
        match rng.below(60) {
            0 => [&fast, &general].map(|store| store.reset_locked(current.key(&subject))),
            1 => [&fast, &general].map(|store| store.sweep(at)),
            _ => [(), ()],
        };
        let units = if rng.below(10) == 0 { 1 + rng.below(30) } else { 1 + rng.below(3) };
        let mut charge = current.charge(&subject).cost(cost(units));
        if rng.below(15) == 0 {
            charge = charge.refund(Receipt::Newest);
        }
        let decisions = (fast.check_sync(&charge, at).unwrap(), admit(&general, &charge, at));
        assert_eq!(decisions.0, decisions.1, "{name}, step {step}, {subject} at {at}");
    }
    for user in 0..trace.subjects {
        let subject = format!("user:{user}");
        let states =
            [&fast, &general].map(|store| store.load_locked(&[current.charge(&subject)], at));
        assert_eq!(states[0], states[1], "{name}, {subject}");
    }
    assert_eq!(fast.len(), general.len());
}

#[test]
fn every_algorithm_decides_alike_on_both_paths() {
    let mut rng = Rng::new("both_paths");
    for (name, rule) in rules(20, Duration::from_secs(60)) {
        let limits = [limit_of(&rule)];
        let trace = Trace { limits: &limits, subjects: 8, stride: SECOND, changes: u64::MAX };
        agree(name, 1_000, &trace, &mut rng);
        // Small enough to evict and to inherit.
        let trace = Trace { subjects: 200, stride: SECOND / 8, ..trace };
        agree(name, 16, &trace, &mut rng);
    }
}

#[test]
fn changed_quotas_are_decided_alike_on_both_paths() {
    let mut rng = Rng::new("both_paths_changed");
    let rules = rules(20, Duration::from_secs(60));
    let slower = super::rules(8, Duration::from_secs(600));
    let limits: Vec<Limit> = rules.iter().chain(&slower).map(|(_, rule)| limit_of(rule)).collect();
    for changes in [2, 50] {
        let trace = Trace { limits: &limits, subjects: 8, stride: SECOND, changes };
        agree("changing", 1_000, &trace, &mut rng);
        agree("changing", 16, &Trace { subjects: 200, ..trace }, &mut rng);
    }
}

#[test]
fn a_state_of_a_forgotten_quota_is_the_largest_debt_until_it_has_decayed() {
    let (memory, old) = (store(10_000), Limit::new("p", Gcra::new(Quota::per_second(7)).unwrap()));
    // More quotas than are kept, and then one more.
    for number in 0..5_000 {
        let quota = Quota::new(10, Duration::from_micros(1_000_000 + number));
        let limit = Limit::new("p", Gcra::new(quota).unwrap()).unwrap();
        check(&memory, &limit, &format!("user:{number}"), T0);
    }
    assert!(admits(&memory, &old.unwrap(), "victim", T0));
    for (name, rule) in rules(5, Duration::from_secs(3_600)) {
        let limit = limit_of(&rule);
        assert_eq!(drain(&memory, &limit, "victim", T0), 0, "{name}");
        assert_eq!(check(&memory, &limit, "victim", T0).remaining, 0, "{name}");
    }
    let limit = limit_of(&rules(5, Duration::from_secs(3_600))[0].1);
    assert_eq!(drain(&memory, &limit, "victim", T0 + SECOND), 5);
}

#[test]
fn quotas_that_no_key_uses_make_room_for_others() {
    let memory = store(10_000);
    let gcra = |units| limit_of(&Rule::new(Gcra::new(Quota::per_hour(units)).unwrap()));
    for units in 0..4_200 {
        check(&memory, &gcra(1_000 + units), &format!("user:{units}"), T0);
    }
    // Whatever they owed has decayed; one that is used stays.
    let later = T0 + 4_000 * SECOND;
    check(&memory, &gcra(1_000), "user:0", later - SECOND);
    assert!(admits(&memory, &gcra(100), "ada", later));
    assert_eq!(check(&memory, &gcra(200), "ada", later).remaining, 198);
    assert_eq!(check(&memory, &gcra(200), "user:0", later).remaining, 198, "rounded up");
    // Those have a state under both quotas, which names them; this one only the tag of its own.
    assert!(admits(&memory, &gcra(200), "eve", later));
    // A list that is full of quotas in use is as full as before: the largest debt.
    for units in 0..4_200 {
        check(&memory, &gcra(10_000 + units), &format!("late:{units}"), later + SECOND);
    }
    let known = memory.0.states.of(&gcra(1)).quota_ids.of(gcra(200).rule().quota_tag());
    assert!(known.is_some(), "a quota that is used was forgotten");
}
