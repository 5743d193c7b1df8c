//! Many threads on the same keys: exactly the quota passes, and every unit is accounted for.

use core::time::Duration;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use super::*;
use crate::state::State;

const THREADS: u64 = 8;

#[test]
fn exactly_50_of_200_pass_on_every_key() {
    const KEYS: usize = 200;
    for (name, rule) in rules(50, Duration::from_secs(3_600)) {
        let (memory, limit) = (store(10_000), limit_of(&rule));
        let subjects: Vec<String> = (0..KEYS).map(|key| format!("user:{key}")).collect();
        let passed: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
        let start = Barrier::new(usize::try_from(THREADS).unwrap());
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for (subject, passed) in subjects.iter().zip(&passed) {
                        for _ in 0..200 / THREADS {
                            let admitted = admits(&memory, &limit, subject, T0);
                            passed.fetch_add(u64::from(admitted), Relaxed);
                        }
                    }
                });
            }
        });
        for (subject, passed) in subjects.iter().zip(&passed) {
            assert_eq!(passed.load(Relaxed), 50, "{name}, {subject}");
        }
    }
}

/// What a state says was spent since `from`, when nothing has come back yet.
fn spent(rule: &Rule, state: &State, from: Micros) -> u64 {
    assert_eq!(state.quota_id, rule.quota_id());
    match (rule.name(), &state.words[..]) {
        ("gcra" | "token_bucket" | "leaky_bucket", [whole, fraction]) => {
            let [_, p, l, _] = rule.quota_id().0;
            let owed = u128::from(whole - from) * u128::from(l) + u128::from(*fraction);
            assert_eq!(owed % u128::from(p), 0, "not a whole number of units");
            u64::try_from(owed / u128::from(p)).unwrap()
        }
        ("fixed_window", [_, count]) => *count,
        ("sliding_window", [_, counts @ ..]) => counts.iter().sum(),
        ("sliding_log", entries) => entries.iter().skip(1).step_by(2).sum(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_admitted_is_what_is_owed() {
    const LIMIT: u64 = 2_000;
    let seed = Rng::new("what_was_admitted_is_what_is_owed").0;
    // One unit takes two hours, so that nothing comes back while the clock runs for a second.
    for (name, rule) in rules(LIMIT, Duration::from_secs(4_000 * 3_600)) {
        let (memory, limit) = (store(100), limit_of(&rule));
        let clock = AtomicU64::new(T0);
        // The schedule counts from here without a gap.
        assert!(admits(&memory, &limit, "shared", T0));
        let admitted = AtomicU64::new(1);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (memory, limit, clock, admitted) = (&memory, &limit, &clock, &admitted);
                scope.spawn(move || {
                    let mut rng = Rng(seed ^ thread);
                    for _ in 0..300 {
                        let at = clock.fetch_add(rng.below(100), Relaxed);
                        let units = 1 + rng.below(3);
                        let charge = limit.charge("shared").cost(cost(units));
                        // Now and then the general path, which holds the line.
                        let granted = if rng.below(8) == 0 {
                            memory.admit_locked(&[charge], at, |_, _| Ok(())).unwrap().1.admitted
                        } else {
                            memory.check_sync(&charge, at).unwrap().is_allowed()
                        };
                        admitted.fetch_add(if granted { units } else { 0 }, Relaxed);
                    }
                });
            }
        });
        let (_, states) = memory.load_locked(&[limit.charge("shared")], clock.load(Relaxed));
        let state = states[0].as_ref().unwrap();
        let admitted = admitted.load(Relaxed);
        assert_eq!(spent(&rule, state, T0), admitted, "{name}: {state:?}");
        assert!(admitted <= LIMIT && admitted > LIMIT - 3, "{name}: {admitted} of {LIMIT}");
    }
}

#[test]
fn admissions_over_two_keys_are_all_or_nothing_beside_single_checks() {
    for (name, rule) in rules(100, Duration::from_secs(3_600)) {
        let (memory, limit) = (store(100), limit_of(&rule));
        let (pairs, singles) = (AtomicU64::new(0), [AtomicU64::new(0), AtomicU64::new(0)]);
        thread::scope(|scope| {
            for thread in 0..4 {
                let (memory, limit, pairs, singles) = (&memory, &limit, &pairs, &singles);
                scope.spawn(move || {
                    // Both orders: the locks must not mind.
                    let both = [limit.charge("a"), limit.charge("b")];
                    let both = if thread % 2 == 0 { both } else { [both[1], both[0]] };
                    for _ in 0..40 {
                        let admitted =
                            memory.admit_locked(&both, T0, |_, _| Ok(())).unwrap().1.admitted;
                        pairs.fetch_add(u64::from(admitted), Relaxed);
                        let (single, subject) = if thread < 2 { (0, "a") } else { (1, "b") };
                        let admitted = admits(memory, limit, subject, T0);
                        singles[single].fetch_add(u64::from(admitted), Relaxed);
                    }
                });
            }
        });
        let totals = singles.map(|single| single.into_inner() + pairs.load(Relaxed));
        // 160 pairs and 80 singles each are asked for: one key at least is drained, none overdrawn.
        assert!(totals.iter().all(|total| *total <= 100), "{name}: {totals:?}");
        assert!(totals.contains(&100), "{name}: {totals:?}");
        let rest = ["a", "b"].map(|subject| drain(&memory, &limit, subject, T0));
        assert_eq!([totals[0] + rest[0], totals[1] + rest[1]], [100, 100], "{name}");
    }
}
