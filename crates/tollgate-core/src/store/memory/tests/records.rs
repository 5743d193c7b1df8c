//! Request ids: charged once, bounded exactly, forgotten when they expire or when room is needed.

use core::time::Duration;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use super::*;
use crate::charge::{Admission, Receipt, RequestId};
use crate::error::{Code, Result};
use crate::store::Evidence;
use crate::store::memory::{Bounds, WhenIdsFull};

fn gcra(limit: u64) -> Limit {
    limit_of(&rules(limit, Duration::from_secs(3_600))[0].1)
}

fn with(bounds: Bounds) -> Memory {
    Memory::builder().bounds(bounds.max_keys(10_000)).build().unwrap()
}

/// A store that refuses more ids than this.
fn bounded(max: usize) -> Memory {
    with(Bounds::new().max_request_ids(max).when_ids_full(WhenIdsFull::Refuse))
}

fn once(memory: &Memory, limit: &Limit, id: &str, keep: Micros, at: Micros) -> Result<Evidence> {
    once_of(memory, &limit.charge("user"), id, keep, at)
}

fn once_of(
    memory: &Memory,
    charge: &Charge<'_>,
    id: &str,
    keep: Micros,
    at: Micros,
) -> Result<Evidence> {
    let once = RequestId { keep, ..RequestId::new(id).unwrap() };
    memory.admit_sync(&Admission::from(*charge).request_id(once), at)
}

/// One id on a key of its own.
fn alone(memory: &Memory, limit: &Limit, id: &str, keep: Micros, at: Micros) -> Result<Evidence> {
    once_of(memory, &limit.charge(id), id, keep, at)
}

#[test]
fn the_bound_is_exact_however_small() {
    for max in [1, 2, 15, 16, 17, 100] {
        let (memory, limit) = (bounded(max), gcra(1_000));
        for id in 0..max {
            let admitted = alone(&memory, &limit, &format!("id:{id}"), 1_000, T0).unwrap();
            assert!(admitted.replayed.is_none(), "{id} of {max}");
        }
        let refused = alone(&memory, &limit, "one more", 1_000, T0).unwrap_err();
        assert_eq!(refused.code(), Code::QueueFull, "{max}");
        // A refusal charges nothing, and a replay needs no room.
        assert_eq!(check(&memory, &limit, "one more", T0).remaining, 999);
        assert!(alone(&memory, &limit, "id:0", 1_000, T0).unwrap().replayed.is_some());
        // They all expire: there is room again, for all of them.
        for id in 0..max {
            alone(&memory, &limit, &format!("again:{id}"), 1_000, T0 + 1_000).unwrap();
        }
        assert_eq!(memory.usage()[0].forgotten_request_ids, 0);
    }
}

#[test]
fn the_ids_that_expire_first_are_forgotten_early_and_counted() {
    for max in [1, 16, 17, 100] {
        let (memory, limit) = (with(Bounds::new().max_request_ids(max)), gcra(1_000));
        for id in 0..10 * max {
            let id = format!("id:{id}");
            assert!(alone(&memory, &limit, &id, SECOND, T0).unwrap().replayed.is_none());
            assert!(alone(&memory, &limit, &id, SECOND, T0).unwrap().replayed.is_some(), "{id}");
        }
        let usage = &memory.usage()[0];
        assert_eq!((usage.request_ids, usage.max_request_ids), (max, max));
        assert_eq!(usage.forgotten_request_ids, 9 * max as u64);
        // Charged twice, never admitted twice: the quota holds.
        assert_eq!(check(&memory, &limit, "id:0", T0).remaining, 998);
    }
}

/// A refund that is forgotten could be made again, and again.
#[test]
fn the_record_of_a_refund_is_not_forgotten_early() {
    let memory = with(Bounds::new().max_request_ids(64));
    let limit = gcra(1_000_000);
    let charge = limit.charge("user").cost(Cost::new(1_000).unwrap());
    once_of(&memory, &charge, "charge", 1_000, T0).unwrap();
    let refund = charge.refund(Receipt::Newest);
    assert!(once_of(&memory, &refund, "refund", 1_000, T0).unwrap().replayed.is_none());
    // Ids of the same key, and of others.
    for id in 0..1_000 {
        once(&memory, &limit, &format!("own:{id}"), 2_000, T0).unwrap();
        alone(&memory, &limit, &format!("other:{id}"), 2_000, T0).unwrap();
    }
    assert!(once_of(&memory, &charge, "charge", 1_000, T0).unwrap().replayed.is_none());
    assert!(once_of(&memory, &refund, "refund", 1_000, T0).unwrap().replayed.is_some());
    // Where only refunds are left, the next one is refused.
    let refused =
        (0..64).find_map(|id| once_of(&memory, &refund, &format!("refund:{id}"), 1_000, T0).err());
    assert_eq!(refused.unwrap().code(), Code::QueueFull);
    assert!(once_of(&memory, &refund, "later", 1_000, T0 + 1_001).is_ok());
}

#[test]
fn one_key_takes_no_more_than_its_share() {
    let memory = with(Bounds::new().max_request_ids(100_000));
    let limit = gcra(1_000_000);
    let others: Vec<String> = (0..500).map(|other| format!("other:{other}")).collect();
    for other in &others {
        alone(&memory, &limit, other, 300 * SECOND, T0).unwrap();
    }
    for id in 0..100_000 {
        once(&memory, &limit, &format!("id:{id}"), 300 * SECOND, T0 + 1).unwrap();
    }
    for other in &others {
        let answer = alone(&memory, &limit, other, 300 * SECOND, T0 + 2).unwrap();
        assert!(answer.replayed.is_some(), "{other}");
    }
    for late in 0..500 {
        let late = format!("late:{late}");
        assert!(alone(&memory, &limit, &late, SECOND, T0 + 2).unwrap().replayed.is_none());
        assert!(alone(&memory, &limit, &late, SECOND, T0 + 2).unwrap().replayed.is_some());
    }
    let newest = once(&memory, &limit, "id:99999", SECOND, T0 + 2).unwrap();
    assert!(newest.replayed.is_some(), "the newest ids of the key are kept");
    let usage = &memory.usage()[0];
    assert_eq!(usage.request_ids, 100_000 / 16 + 1_000);
    assert_eq!(usage.forgotten_request_ids, 100_000 - 100_000 / 16);
}

#[test]
fn records_that_are_kept_long_do_not_keep_the_others() {
    let (memory, limit) = (bounded(10), gcra(1_000));
    alone(&memory, &limit, "long", 1_000_000, T0).unwrap();
    for round in 0..100 {
        let at = T0 + round * 10;
        for id in 0..9 {
            alone(&memory, &limit, &format!("short:{round}:{id}"), 10, at).unwrap();
        }
        assert!(alone(&memory, &limit, "long", 1_000_000, at).unwrap().replayed.is_some());
    }
}

#[test]
fn denied_ids_take_no_room() {
    let (memory, limit) = (bounded(48), gcra(2));
    for id in 0..100 {
        once(&memory, &limit, &format!("id:{id}"), SECOND, T0).unwrap();
    }
    assert_eq!(memory.0.states.of(&limit).records.held(), 2);
}

#[test]
fn an_id_is_charged_once_by_any_number_of_threads_at_any_instant() {
    for at in [0, T0, u64::MAX] {
        let (memory, limit, charged) = (bounded(1_600), gcra(1_000), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for id in 0..100 {
                        let answer = once(&memory, &limit, &format!("id:{id}"), SECOND, at);
                        let first = answer.unwrap().replayed.is_none();
                        charged.fetch_add(usize::from(first), Relaxed);
                    }
                });
            }
        });
        assert_eq!(charged.into_inner(), 100);
        assert_eq!(memory.0.states.of(&limit).records.held(), 100);
        assert_eq!(drain(&memory, &limit, "user", at), 900);
    }
}

#[test]
fn reset_keeps_the_ids() {
    let (memory, limit) = (bounded(10), gcra(5));
    once(&memory, &limit, "id", SECOND, T0).unwrap();
    memory.reset_locked(limit.key("user"));
    assert!(once(&memory, &limit, "id", SECOND, T0).unwrap().replayed.is_some());
    assert_eq!(drain(&memory, &limit, "user", T0), 5);
    assert!(once(&memory, &limit, "id", SECOND, T0 + SECOND).unwrap().replayed.is_none());
}

/// A refund keeps the whole state of its key, so that a caller with long states could fill the
/// memory.
#[test]
fn long_records_count_as_several() {
    let log = SlidingLog::new(Quota::new(1_000, Duration::from_secs(3_600))).unwrap();
    let (memory, limit) = (bounded(1_600), limit_of(&Rule::new(log)));
    for tick in 0..640 {
        assert!(check(&memory, &limit, "user", T0 + tick).is_allowed());
    }
    let at = T0 + 640;
    let refund = |id: &str| {
        let charges = [limit.charge("user").refund(Receipt::Newest)];
        let once = RequestId { keep: SECOND, ..RequestId::new(id).unwrap() };
        memory.admit_sync(&Admission::of(&charges).request_id(once), at)
    };
    // Some 2 KiB each.
    let kept = (0..100).take_while(|id| refund(&format!("id:{id}")).is_ok()).count();
    assert!((15..=40).contains(&kept), "{kept} are kept");
    assert_eq!(refund("one more").unwrap_err().code(), Code::QueueFull);
    let left = u64::try_from(1_000 - 640 + kept).unwrap();
    assert_eq!(limit_left(&memory, &limit, at), left, "a refusal gives nothing back");
    assert!(refund("id:0").unwrap().replayed.is_some());
    // They expire, and all of their room comes back. (A record of the old state would be long
    // again.)
    memory.reset_locked(limit.key("user"));
    for id in 0..100 {
        once(&memory, &gcra(1_000), &format!("short:{id}"), SECOND, at + SECOND).unwrap();
    }
    assert_eq!(memory.0.states.of(&limit).records.held(), 100);
}

fn limit_left(memory: &Memory, limit: &Limit, at: Micros) -> u64 {
    let (now, states) = memory.load_locked(&[limit.charge("user")], at);
    let words = states[0].as_ref().map_or(&[][..], |state| &state.words);
    limit.rule().forecast(words, now).spendable_now
}

/// What a record takes: all that grows with their number.
#[test]
fn a_record_takes_64_bytes_or_less() {
    const IDS: usize = 100_000;
    let minute = Quota::per_minute(10);
    let token_bucket = TokenBucket::new(10, minute).unwrap();
    let limits = [
        (gcra(1_000_000), 64),
        (limit_of(&Rule::new(token_bucket)), 64),
        (limit_of(&Rule::new(SlidingLog::new(minute).unwrap())), 64),
    ];
    for (limit, at_most) in limits {
        // Far more ids than one key may have, and a key for each id.
        let memory = Memory::new();
        for id in 0..IDS {
            let at = T0 + id as u64 * 100;
            let id = format!("018f7c3e-7c3e-7000-8000-{id:012x}");
            alone(&memory, &limit, &id, 300 * SECOND, at).unwrap();
        }
        let records = &memory.0.states.of(&limit).records;
        let each = records.bytes().div_ceil(IDS);
        println!("{each} bytes for each of {IDS} ids of {}", limit.rule().name());
        assert_eq!(records.held(), IDS);
        assert!(each <= at_most, "{each}");
        assert!(
            alone(&memory, &limit, "018f7c3e-7c3e-7000-8000-000000000000", 1, T0 + SECOND)
                .unwrap()
                .replayed
                .is_some()
        );
        // All of it is given back.
        alone(&memory, &limit, "late", SECOND, T0 + 400 * SECOND).unwrap();
        for id in 0..1_000 {
            let at = T0 + 400 * SECOND;
            alone(&memory, &limit, &format!("late:{id}"), SECOND, at).unwrap();
        }
        assert!(records.held() <= 1_001 && records.max() == 3_000_000, "{}", records.held());
        assert!(records.bytes() < 300_000, "{} bytes are left", records.bytes());
    }
}

/// The bytes of request ids are bounded too, and are given back.
#[test]
fn request_ids_take_their_share_of_the_bytes() {
    let memory = Memory::builder().max_keys(1_000).memory(1 << 20).build().unwrap();
    let limit = gcra(1_000_000);
    for id in 0..100_000 {
        let id = format!("id:{id}");
        assert!(once(&memory, &limit, &id, 300 * SECOND, T0).unwrap().replayed.is_none());
    }
    let (used, max) = memory.memory_used();
    assert!(used <= max, "{used} of {max}");
    let usage = &memory.usage()[0];
    assert!(usage.forgotten_request_ids > 0 && usage.request_ids < 100_000, "{usage:?}");
    assert!(once(&memory, &limit, "id:99999", SECOND, T0).unwrap().replayed.is_some());
}
