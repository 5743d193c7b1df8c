//! Clocks that step back, also after the line of a key was given to others, and extreme clocks.

use core::time::Duration;

use super::*;

const LIMIT: u64 = 5;

/// Hands the line of `subject` to others, at an instant when it has expired.
fn replace(memory: &Memory, limit: &Limit, subject: &str, at: Micros) {
    for filler in 0..10_000 {
        if !is_held(memory, &limit.charge(subject)) {
            return;
        }
        check(memory, limit, &format!("filler:{filler}"), at);
    }
    panic!("{subject} was never replaced");
}

#[test]
fn a_clock_that_steps_back_after_expiry_and_reuse_never_over_admits() {
    for max_keys in [1, 2, 31, 32, 33] {
        for (name, rule) in rules(LIMIT, Duration::from_secs(60)) {
            let (memory, limit) = (store(max_keys), limit_of(&rule));
            assert_eq!(drain(&memory, &limit, "victim", T0), LIMIT, "{name}");
            let later = T0 + 3 * rule.horizon();
            replace(&memory, &limit, "victim", later);
            // By the time the clock had reached, the quota had come back once: so much and no more.
            let mut passed = 0;
            for step in 0..60 {
                let before = T0 + step * SECOND;
                let charge = limit.charge("victim");
                passed += u64::from(memory.check_sync(&charge, before).unwrap().is_allowed());
            }
            assert!(passed <= LIMIT, "{name}, {max_keys} keys: {passed} after the step back");
        }
    }
}

#[test]
fn a_swept_key_is_decided_no_earlier_than_it_was_swept() {
    for (name, rule) in rules(LIMIT, Duration::from_secs(60)) {
        let (memory, limit) = (store(100), limit_of(&rule));
        // At several instants, so that a log is long.
        for step in 0..LIMIT {
            assert!(admits(&memory, &limit, "victim", T0 + step));
        }
        memory.sweep(T0 + 3 * rule.horizon());
        let passed = (0..LIMIT + 60).filter(|step| admits(&memory, &limit, "victim", T0 + step));
        assert!(passed.count() as u64 <= LIMIT, "{name}");
    }
}

#[test]
fn the_first_and_the_last_instant_are_decided_like_any_other() {
    for max_keys in [1, 2, 31, 32, 33] {
        for (name, rule) in rules(LIMIT, Duration::from_secs(60)) {
            let (memory, limit) = (store(max_keys), limit_of(&rule));
            assert_eq!(drain(&memory, &limit, "first", 0), LIMIT, "{name}");
            assert_eq!(drain(&memory, &limit, "last", u64::MAX), LIMIT, "{name}");
            for other in 0..100 {
                check(&memory, &limit, &format!("other:{other}"), u64::MAX);
            }
            memory.sweep(u64::MAX);
            assert_eq!(drain(&memory, &limit, "last", u64::MAX), 0, "{name}, {max_keys} keys");
            assert!(drain(&memory, &limit, "first", 0) <= LIMIT, "{name}");
        }
    }
}
