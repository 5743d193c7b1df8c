//! What holds when keys must go: debts of throttled keys are never dropped, the others lose
//! at most what they had spent.

use core::time::Duration;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;

use super::*;

const LIMIT: u64 = 5;
const PERIOD: Duration = Duration::from_secs(3_600);

/// Drains other keys for as long as that evicts a key, or until the line of `subject` is gone.
fn evict(memory: &Memory, limit: &Limit, subject: &str, at: Micros) {
    for pusher in 0..2_000 {
        drain(memory, limit, &format!("pusher:{pusher}"), at);
        if !is_held(memory, &limit.charge(subject)) {
            return;
        }
    }
}

/// Drains keys until one of them has lost its line.
fn evicted(memory: &Memory, limit: &Limit, at: Micros) -> String {
    let drained: Vec<String> = (0..100)
        .map(|victim| format!("victim:{victim}"))
        .filter(|victim| drain(memory, limit, victim, at) == LIMIT)
        .collect();
    let mut drained = drained.into_iter();
    drained.find(|victim| !is_held(memory, &limit.charge(victim))).expect("a key was evicted")
}

#[test]
fn a_throttled_key_comes_back_as_indebted_as_it_went() {
    // Whether a key is evicted depends on its fingerprint, which differs between processes.
    let mut evicted = (0..50).map(|number| comes_back_indebted(&format!("victim:{number}")));
    let evicted = evicted.find(|evicted| *evicted > 0);
    assert!(evicted.is_some(), "nothing was evicted: this shows nothing");
}

/// How often the key was evicted.
fn comes_back_indebted(victim: &str) -> usize {
    let mut evicted = 0;
    for max_keys in [1, 2, 31, 32, 33] {
        for (name, rule) in rules(LIMIT, PERIOD) {
            let (memory, calm, limit) = (store(max_keys), store(100), limit_of(&rule));
            drain(&memory, &limit, victim, T0);
            drain(&calm, &limit, victim, T0);
            // The pushers owe longer, so the victim is the first to go.
            evict(&memory, &limit, victim, T0 + SECOND);
            evicted += usize::from(!is_held(&memory, &limit.charge(victim)));
            let (mut passed, mut passed_calm) = (0, 0);
            // Also at instants before: a clock may step back.
            let before = [T0 - 7_200 * SECOND, T0 - SECOND].into_iter();
            for at in before.chain((0..90).map(|minute| T0 + minute * 60 * SECOND)) {
                passed += drain(&memory, &limit, victim, at);
                passed_calm += drain(&calm, &limit, victim, at);
                assert!(passed <= passed_calm, "{name}, {max_keys} keys, at {at}");
            }
        }
    }
    evicted
}

#[test]
fn the_debt_of_a_throttled_key_is_kept_when_its_quota_changes_meanwhile() {
    for (name, old) in rules(LIMIT, Duration::from_secs(10)) {
        for (new_name, new) in rules(LIMIT, PERIOD) {
            let (memory, limit) = (store(1), limit_of(&old));
            let victim = evicted(&memory, &limit, T0);
            let passed = drain(&memory, &limit_of(&new), &victim, T0 + 1_000);
            assert_eq!(passed, 0, "{name}, then {new_name}");
            // The old debt has decayed, and was not read under the new quota.
            let passed = drain(&memory, &limit_of(&new), &victim, T0 + 60 * SECOND);
            assert_eq!(passed, LIMIT, "{name}, then {new_name}");
        }
    }
}

#[test]
fn reset_also_frees_a_key_that_was_evicted() {
    for (name, rule) in rules(LIMIT, PERIOD) {
        let (memory, limit) = (store(1), limit_of(&rule));
        let victim = evicted(&memory, &limit, T0);
        memory.reset_locked(limit.key(&victim));
        assert_eq!(drain(&memory, &limit, &victim, T0), LIMIT, "{name}");
        memory.reset_locked(limit.key(&victim));
        assert_eq!(drain(&memory, &limit, &victim, T0), LIMIT, "{name}");
    }
}

#[test]
fn a_mirrored_debt_adds_to_what_was_inherited_and_to_what_was_forgotten() {
    for (name, rule) in rules(LIMIT, PERIOD) {
        let (memory, limit) = (store(1), limit_of(&rule));
        let victim = evicted(&memory, &limit, T0);
        memory.owe_at_least(&limit.charge(&victim), 1, (1, 0), T0);
        assert_eq!(drain(&memory, &limit, &victim, T0), 0, "{name}");
        // Expired, reused, and the clock steps back: owed no earlier than what was forgotten.
        let (memory, later) = (store(1), T0 + 3 * rule.horizon());
        drain(&memory, &limit, "victim", T0);
        for other in 0..100 {
            check(&memory, &limit, &format!("other:{other}"), later);
        }
        assert!(!is_held(&memory, &limit.charge("victim")), "{name}: not reused");
        memory.owe_at_least(&limit.charge("victim"), 1, (1, 0), T0);
        let passed: u64 =
            (0..60).map(|minute| drain(&memory, &limit, "victim", T0 + minute * 60 * SECOND)).sum();
        assert!(passed < LIMIT, "{name}: {passed}");
    }
}

/// One key under pressure, watched by all the threads that use it.
struct Watched {
    subject: String,
    /// A check has found that nothing is left.
    drained: AtomicBool,
    passed: AtomicU64,
}

#[test]
fn under_pressure_a_drained_key_stays_drained_for_all_threads() {
    let seed = Rng::new("under_pressure").0;
    let evictions = AtomicUsize::new(0);
    for (name, rule) in rules(LIMIT, PERIOD) {
        let (memory, limit) = (store(48), limit_of(&rule));
        let watched: Vec<Watched> = (0..64)
            .map(|key| Watched {
                subject: format!("watched:{key}"),
                drained: AtomicBool::new(false),
                passed: AtomicU64::new(0),
            })
            .collect();
        thread::scope(|scope| {
            for thread in 0..6 {
                let (memory, limit, watched, evictions) = (&memory, &limit, &watched, &evictions);
                scope.spawn(move || {
                    let mut rng = Rng(seed ^ thread);
                    for round in 0..3_000 {
                        if rng.below(4) == 0 {
                            drain(memory, limit, &format!("flood:{thread}:{round}"), T0);
                        }
                        let key = rng.pick(watched);
                        let drained_before = key.drained.load(Relaxed);
                        let decision = check(memory, limit, &key.subject, T0);
                        assert!(!(drained_before && decision.is_allowed()), "{name}: debt dropped");
                        key.passed.fetch_add(u64::from(decision.is_allowed()), Relaxed);
                        if decision.remaining == 0 {
                            key.drained.store(true, Relaxed);
                            let gone = !is_held(memory, &limit.charge(&key.subject));
                            evictions.fetch_add(usize::from(gone), Relaxed);
                        }
                    }
                });
            }
        });
        assert!(memory.len() <= 48 + 24 + 32, "{name}: {} keys", memory.len());
    }
    assert!(evictions.into_inner() > 0, "nothing was evicted: this shows nothing");
}

#[test]
fn a_key_passes_at_most_its_quota_more_for_each_time_it_was_forgotten_unthrottled() {
    let mut rng = Rng::new("forgotten_unthrottled");
    for (name, rule) in rules(LIMIT, PERIOD) {
        let (memory, limit) = (store(8), limit_of(&rule));
        let (mut passed, mut forgotten, mut throttled) = (0, 0, false);
        for round in 0..2_000 {
            let held = is_held(&memory, &limit.charge("watched"));
            if passed > 0 && !held && !throttled {
                forgotten += 1;
            }
            let decision = check(&memory, &limit, "watched", T0);
            passed += u64::from(decision.is_allowed());
            throttled = decision.remaining == 0;
            assert!(passed <= LIMIT * (1 + forgotten), "{name}: {passed} after {forgotten}");
            for other in 0..rng.below(12) {
                check(&memory, &limit, &format!("other:{round}:{other}"), T0);
            }
        }
        println!("{name}: {passed} passed, forgotten {forgotten} times unthrottled");
    }
}

#[test]
fn a_key_that_owes_nearly_all_outlives_a_flood_of_keys_that_owe_one_unit() {
    for (name, rule) in rules(100, Duration::from_secs(86_400)) {
        let (memory, limit) = (store(1_000), limit_of(&rule));
        let spend = limit.charge("victim").cost(cost(99));
        let mut passed = 0;
        for round in 0..10 {
            if memory.check_sync(&spend, T0).unwrap().is_allowed() {
                passed += 99;
            }
            for spoofed in 0..5_000 {
                check(&memory, &limit, &format!("{round}-{spoofed}"), T0);
            }
        }
        assert_eq!(passed, 99, "{name}: of 100 per day");
    }
}

#[test]
fn a_look_sees_what_a_check_would_see() {
    for (name, rule) in rules(5, Duration::from_secs(60)) {
        let (memory, limit) = (store(100), limit_of(&rule));
        drain(&memory, &limit, "victim", T0);
        evict(&memory, &limit, "victim", T0);
        let (now, states) = memory.load_locked(&[limit.charge("victim")], T0);
        let words = states[0].as_ref().map_or(&[][..], |state| &state.words);
        assert!(!rule.peek(words, now, Cost::ONE).is_allowed(), "{name}: inherited");
    }
    // More quotas than are kept by name.
    let memory = store(20_000);
    let gcra = |units| Limit::new("many", Gcra::new(Quota::per_day(units)).unwrap()).unwrap();
    for units in 10..5_010 {
        check(&memory, &gcra(units), &units.to_string(), T0);
    }
    let limit = gcra(5);
    drain(&memory, &limit, "victim", T0);
    let (now, states) = memory.load_locked(&[limit.charge("victim")], T0);
    let words = states[0].as_ref().map_or(&[][..], |state| &state.words);
    assert!(!limit.rule().peek(words, now, Cost::ONE).is_allowed(), "an unknown quota");
}
