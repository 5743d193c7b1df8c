//! How full the table gets, and that it never exceeds its bound.

use core::time::Duration;

use super::*;
use crate::store::memory::line::Held;

fn gcra() -> Limit {
    limit_of(&rules(5, Duration::from_secs(60))[0].1)
}

fn held(memory: &Memory, limit: &Limit, keys: usize) -> usize {
    (0..keys).filter(|key| is_held(memory, &limit.charge(&format!("user:{key}")))).count()
}

#[test]
fn the_table_fills_to_its_bound_with_next_to_no_evictions() {
    let rule = &rules(5, Duration::from_secs(60))[0].1;
    let (mut keys, mut lost) = (0, 0);
    for (max_keys, tables) in [(1, 100), (33, 100), (1_000, 50), (10_000, 10), (300_000, 1)] {
        for table in 0..tables {
            // Another policy: other positions.
            let limit = Limit::with_rule(&format!("p{table}"), rule.clone()).unwrap();
            let memory = store(max_keys);
            for key in 0..max_keys {
                check(&memory, &limit, &format!("user:{key}"), T0);
            }
            let lost_here = max_keys - held(&memory, &limit, max_keys);
            assert_eq!(memory.len(), max_keys - lost_here);
            (keys, lost) = (keys + max_keys, lost + lost_here);
        }
        println!("{lost} of {keys} lost in tables for up to {max_keys}");
    }
    assert!(lost < keys / 10_000, "{lost} of {keys}");
}

#[test]
fn more_keys_than_the_bound_replace_one_another() {
    let limit = gcra();
    for max_keys in [1, 2, 31, 32, 33, 1_000, 20_000] {
        let memory = store(max_keys);
        let keys = 10 * max_keys.max(100);
        for key in 0..keys {
            check(&memory, &limit, &format!("user:{key}"), T0);
        }
        let (len, shards) = (memory.len(), table(&memory, &limit).shards());
        println!("bound {max_keys}: {len} lines in use after {keys} keys, {shards} shards");
        assert!(len >= max_keys && len <= max_keys + max_keys / 2 + 32 * shards, "{len}");
        assert!(held(&memory, &limit, keys) <= len);
    }
}

#[test]
fn keys_that_expire_replace_one_another_and_never_exceed_the_bound() {
    let limit = gcra();
    for max_keys in [1, 2, 31, 32, 33, 1_000, 20_000] {
        let memory = store(max_keys);
        let keys = 10 * max_keys.max(100);
        for key in 0..keys {
            // Each expires before the next but one comes.
            check(&memory, &limit, &format!("user:{key}"), T0 + key as u64 * 6 * SECOND);
        }
        println!("bound {max_keys}: {} lines in use after {keys} keys", memory.len());
        assert!(memory.len() <= max_keys + 64 * 64, "{}", memory.len());
        let held = held(&memory, &limit, keys);
        assert!((1..=memory.len()).contains(&held), "{held}");
    }
}

#[test]
fn a_key_is_never_stored_twice() {
    let mut rng = Rng::new("never_stored_twice");
    let limits: Vec<Limit> =
        rules(5, Duration::from_secs(60)).iter().map(|(_, rule)| limit_of(rule)).collect();
    for max_keys in [2, 40, 200] {
        let (memory, mut at) = (store(max_keys), T0);
        for _ in 0..20_000 {
            at += rng.below(SECOND);
            let subject = format!("user:{}", rng.below(4 * max_keys as u64));
            match rng.below(20) {
                0 => memory.reset_locked(rng.pick(&limits).key(&subject)),
                1 => memory.sweep(at),
                _ => drop(check(&memory, rng.pick(&limits), &subject, at)),
            }
        }
        let mut ids: Vec<_> = (0..table(&memory, &limits[0]).shards())
            .flat_map(|shard| table(&memory, &limits[0]).lines_of(shard))
            .map(|(_, line)| Held::lock(line))
            .filter(|held| !held.is_free())
            .map(|held| held.id())
            .collect();
        let lines = ids.len();
        assert_eq!(lines, memory.len());
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), lines, "a key has two lines");
    }
}

#[test]
fn long_states_that_were_replaced_leave_nothing_behind() {
    let rules = rules(8, Duration::from_secs(60));
    let limit = limit_of(&rules.iter().find(|(name, _)| *name == "sliding_log").unwrap().1);
    let memory = store(100);
    for key in 0..5_000_u64 {
        for entry in 0..4 {
            check(&memory, &limit, &format!("user:{key}"), T0 + key * SECOND + entry);
        }
    }
    let spilled = table(&memory, &limit).lock(0).unwrap().spilled_in_use();
    println!("{spilled} long states in {} lines", memory.len());
    assert!(spilled <= memory.len());
    memory.sweep(u64::MAX);
    assert_eq!(table(&memory, &limit).lock(0).unwrap().spilled_in_use(), 0);
}
