//! What the callers of one policy do changes nothing for the keys of another.

use core::time::Duration;

use super::*;
use crate::charge::{Admission, RequestId};
use crate::error::Code;

const CUSTOMERS: usize = 500;
/// As long as a quota may take.
const CENTURY: Duration = Duration::from_secs(127 * 365 * 86_400);

fn limit(policy: &str, quota: Quota) -> Limit {
    Limit::gcra(policy, quota).unwrap()
}

/// How many of as many keys pass.
fn passing(memory: &Memory, limit: &Limit, name: &str) -> usize {
    (0..CUSTOMERS).filter(|key| admits(memory, limit, &format!("{name}:{key}"), T0)).count()
}

#[test]
fn a_flood_from_outside_of_a_policy_changes_nothing_for_its_keys() {
    let memory = store(2_000);
    let (inside, outside) =
        (limit("inside", Quota::per_minute(10)), limit("outside", Quota::new(1, CENTURY)));
    assert_eq!(passing(&memory, &inside, "established"), CUSTOMERS);
    for spoofed in 0..20_000 {
        check(&memory, &outside, &format!("spoofed:{spoofed}"), T0);
    }
    assert_eq!(passing(&memory, &inside, "established"), CUSTOMERS);
    assert_eq!(passing(&memory, &inside, "newcomer"), CUSTOMERS);
    let left = check(&memory, &inside, "established:0", T0).remaining;
    assert_eq!(left, 10 - 3, "nothing was forgotten either");
}

#[test]
fn quotas_of_another_policy_leave_a_changed_quota_what_was_left() {
    let memory = store(10_000);
    for number in 0..4_200 {
        let quota = Quota::new(10, Duration::from_micros(1_000_000_000 + number));
        check(&memory, &limit("outside", quota), &format!("user:{number}"), T0);
    }
    let (before, after) =
        (limit("inside", Quota::per_day(100)), limit("inside", Quota::per_day(200)));
    assert!(admits(&memory, &before, "ada", T0));
    assert_eq!(check(&memory, &after, "ada", T0).remaining, 200 - 2);
}

#[test]
fn request_ids_of_another_policy_take_no_room() {
    let memory = Memory::builder().max_keys(1_000).max_request_ids(1_000).build().unwrap();
    let (inside, outside) =
        (limit("inside", Quota::per_day(10)), limit("outside", Quota::per_day(1_000_000)));
    let once = |limit: &Limit, id: &str| {
        let admission = Admission::from(limit.charge("ada"));
        memory.admit_sync(&admission.request_id(RequestId::new(id).unwrap()), T0)
    };
    for id in 0..3_000 {
        drop(once(&outside, &id.to_string()));
    }
    assert!(once(&inside, "id").unwrap().replayed.is_none());
    assert!(once(&inside, "id").unwrap().replayed.is_some());
    assert_eq!(check(&memory, &inside, "ada", T0).remaining, 10 - 2);
}

#[test]
fn long_states_are_counted_and_leave_memory_to_other_policies() {
    const MEMORY: usize = 4 << 20;
    let memory = Memory::builder().max_keys(100_000).memory(MEMORY).build().unwrap();
    let log = |policy| Limit::sliding_log(policy, Quota::per_day(1_000)).unwrap();
    let (inside, outside) = (log("inside"), log("outside"));
    let (mut refused, mut bytes) = (0, 0);
    'flood: for key in 0.. {
        for entry in 0..1_000 {
            match memory.check_sync(&outside.charge(&format!("user:{key}")), T0 + entry) {
                Ok(decision) => assert!(decision.is_allowed()),
                Err(error) => {
                    assert_eq!(error.code(), Code::QueueFull);
                    bytes = memory.memory_used().0;
                    refused += 1;
                    if refused == 2_000 {
                        break 'flood;
                    }
                }
            }
        }
    }
    println!("{bytes} of {MEMORY} bytes are used");
    assert!(bytes <= MEMORY / 2 + 65_536, "one policy takes half of the memory: {bytes}");
    let usage = memory.usage();
    let refusals = usage.iter().map(|policy| policy.memory_refusals).collect::<Vec<_>>();
    assert!(matches!(refusals[..], [2_000..=u64::MAX]), "{refusals:?}");
    for key in 0..50 {
        for entry in 0..100 {
            assert!(admits(&memory, &inside, &format!("user:{key}"), T0 + entry));
        }
        assert_eq!(check(&memory, &inside, &format!("user:{key}"), T0 + 100).remaining, 899);
    }
    // All of it comes back.
    let lines = memory.memory_used().0;
    memory.sweep(T0 + 3 * 86_400 * SECOND);
    assert!(memory.memory_used().0 < lines / 2, "{:?}", memory.memory_used());
}

#[test]
fn an_admission_without_memory_for_its_states_charges_nothing() {
    let memory = Memory::builder().max_keys(1_000).memory(1 << 20).build().unwrap();
    let log = Limit::sliding_log("log", Quota::per_day(1_001)).unwrap();
    let other = limit("other", Quota::per_day(1_000));
    let fits = |subject: &str| {
        (0..1_000).all(|at| memory.check_sync(&log.charge(subject), T0 + at).is_ok())
    };
    assert!(fits("bob"));
    let long = (0..1_000).take_while(|key| fits(&format!("long:{key}"))).count();
    println!("{long} more long states fit");
    assert!((10..40).contains(&long), "{long}");
    let (charges, at) = ([other.charge("ada"), log.charge("bob")], T0 + 1_000);
    let refused = memory.admit_sync(&Admission::of(&charges), at).unwrap_err();
    assert_eq!(refused.code(), Code::QueueFull);
    assert_eq!(check(&memory, &other, "ada", at).remaining, 999);
    // What has expired makes room.
    let later = at + 2 * 86_400 * SECOND;
    assert!(memory.admit_sync(&Admission::of(&charges), later).is_ok());
    assert_eq!(check(&memory, &log, "bob", later).remaining, 999);
}
