//! Growth: a table is as large as its keys need, and no growth forgets or doubles a charge.

use core::time::Duration;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use super::*;

const MIB: usize = 1 << 20;

fn bytes(memory: &Memory) -> usize {
    memory.memory_used().0
}

#[test]
fn ten_thousand_keys_of_a_default_store_take_less_than_five_mebibytes() {
    let (memory, limit) = (Memory::new(), limit_of(&rules(5, Duration::from_secs(60))[0].1));
    assert_eq!(bytes(&memory), 0, "an idle store has no lines");
    for key in 0..10_000 {
        check(&memory, &limit, &format!("user:{key}"), T0);
    }
    println!("10,000 keys take {} bytes", bytes(&memory));
    assert!(bytes(&memory) < 5 * MIB, "{}", bytes(&memory));
}

#[test]
fn as_many_keys_as_the_bound_allows_take_no_more_than_102_bytes_each() {
    let limit = limit_of(&rules(5, Duration::from_secs(60))[0].1);
    for max_keys in [10_000, 100_000] {
        let memory = store(max_keys);
        for key in 0..2 * max_keys {
            check(&memory, &limit, &format!("user:{key}"), T0);
        }
        let per_key = bytes(&memory).div_ceil(max_keys);
        println!("bound {max_keys}: {per_key} bytes per key");
        assert!(per_key <= 102, "{per_key}");
    }
    // The default, without its million keys: each shard as large as it gets.
    let memory = Memory::new();
    let table = table(&memory, &limit);
    for shard in 0..table.shards() {
        table.reserve(shard).unwrap();
        while table.double(shard).is_some() {}
    }
    assert!(bytes(&memory) <= 102_000_000, "{}", bytes(&memory));
}

#[test]
fn growth_changes_no_state() {
    const KEYS: u64 = 6_000;
    for (name, rule) in rules(8, Duration::from_secs(3_600)) {
        let (memory, limit) = (store(100_000), limit_of(&rule));
        for key in 0..KEYS {
            let subject = format!("user:{key}");
            for _ in 0..=key % 8 {
                assert!(admits(&memory, &limit, &subject, T0 + key), "{name}");
            }
        }
        assert_eq!(memory.len() as u64, KEYS, "{name}");
        for key in 0..KEYS {
            let left = drain(&memory, &limit, &format!("user:{key}"), T0 + KEYS);
            assert_eq!(left, 7 - key % 8, "{name}, user:{key}");
        }
    }
}

#[test]
fn exactly_the_quota_passes_while_the_table_grows() {
    const WATCHED: usize = 300;
    const LIMIT: u64 = 40;
    for (name, rule) in rules(LIMIT, Duration::from_secs(3_600)) {
        let (memory, limit) = (store(200_000), limit_of(&rule));
        let (done, passed) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.load(Relaxed) {
                        for key in 0..WATCHED {
                            let admitted = admits(&memory, &limit, &format!("watched:{key}"), T0);
                            passed.fetch_add(u64::from(admitted), Relaxed);
                        }
                    }
                });
            }
            for key in 0..12_000 {
                check(&memory, &limit, &format!("new:{key}"), T0);
            }
            done.store(true, Relaxed);
        });
        let rest: u64 =
            (0..WATCHED).map(|key| drain(&memory, &limit, &format!("watched:{key}"), T0)).sum();
        assert_eq!(passed.into_inner() + rest, LIMIT * WATCHED as u64, "{name}");
        assert_eq!(memory.len(), 12_000 + WATCHED, "{name}: a key was lost or has two lines");
    }
}

#[test]
fn keys_that_have_expired_make_room_before_the_table_grows() {
    for (name, rule) in rules(5, Duration::from_secs(60)) {
        let (memory, limit) = (store(100_000), limit_of(&rule));
        // A thousand keys are in use within the minutes for which a line is kept.
        let step = (rule.horizon() + 300 * SECOND) / 1_000;
        for key in 0..30_000 {
            check(&memory, &limit, &format!("user:{key}"), T0 + key * step);
        }
        println!("{name}: {} lines, {} keys", bytes(&memory) / 64, memory.len());
        assert!(bytes(&memory) <= 64 * 24_000, "{name}: {}", bytes(&memory));
        // What was reclaimed is not decided earlier than it was forgotten.
        let passed: u64 =
            (0..60).map(|second| drain(&memory, &limit, "user:0", T0 + second * SECOND)).sum();
        assert!(passed <= 5, "{name}: {passed} after a step back");
    }
}

#[test]
fn growth_leaves_a_debt_where_its_key_finds_it() {
    for (name, rule) in rules(5, Duration::from_secs(3_600)) {
        let (memory, limit) = (store(2_000), limit_of(&rule));
        let subjects: Vec<String> = (0..10_000).map(|key| format!("user:{key}")).collect();
        for subject in &subjects {
            drain(&memory, &limit, subject, T0);
        }
        let evicted = subjects.iter().filter(|subject| !is_held(&memory, &limit.charge(subject)));
        assert!(evicted.count() > 0, "{name}: no key was evicted, this shows nothing");
        let passed: u64 = subjects.iter().map(|one| drain(&memory, &limit, one, T0)).sum();
        assert_eq!(passed, 0, "{name}");
    }
}
