//! Charges of one key under several quotas in turn: what is kept of each.

use super::{Plan, plan};

use crate::algorithm::{Gcra, SlidingLog, migrate_state, next_state};
use crate::cost::Cost;
use crate::error::Code;
use crate::limit::Limit;
use crate::quota::Quota;
use crate::rule::Rule;
use crate::state::{State, Words};
use crate::time::{Micros, Now};

const SECOND: Micros = 1_000_000;
const START: Micros = 1_700_000_000_000_000;

fn gcra(limit: u64, seconds: u64) -> Rule {
    Rule::new(Gcra::new(Quota::new(limit, core::time::Duration::from_secs(seconds))).unwrap())
}

fn log(limit: u64, seconds: u64) -> Rule {
    let quota = Quota::new(limit, core::time::Duration::from_secs(seconds));
    Rule::new(SlidingLog::new(quota).unwrap())
}

/// Charges a key whose state may be written.
fn charge(state: &mut Option<State>, rule: &Rule, at: Micros, units: u64) -> Plan {
    let limit = Limit::with_rule("p", rule.clone()).unwrap();
    let charges = [limit.charge("x").cost(Cost::new(units).unwrap())];
    let planned = plan(&charges, &[0], std::slice::from_ref(state), Now::at(at)).unwrap();
    if let Some(write) = planned.writes.first() {
        *state = Some(write.state.clone());
    }
    planned
}

fn kept(state: Option<&State>) -> usize {
    state.map_or(0, |state| state.others.len())
}

#[test]
fn a_state_under_another_quota_is_kept_until_it_counts_nothing() {
    let (high, low) = (gcra(10, 10), gcra(2, 10));
    let mut state = None;
    assert!(charge(&mut state, &high, START, 10).admitted);
    assert!(!charge(&mut state, &low, START, 1).admitted);
    assert_eq!(kept(state.as_ref()), 1);
    // A charge counts under both: this one for a second, after nine units have come back.
    assert!(charge(&mut state, &low, START + 9 * SECOND, 1).admitted);
    assert_eq!(kept(state.as_ref()), 1);
    assert!(charge(&mut state.clone(), &high, START + 9 * SECOND, 8).admitted);
    assert!(!charge(&mut state.clone(), &high, START + 9 * SECOND, 9).admitted);
    let mut later = state.clone();
    assert!(charge(&mut state, &low, START + 11 * SECOND - 1, 1).admitted);
    assert_eq!(kept(state.as_ref()), 1);
    assert!(charge(&mut later, &low, START + 11 * SECOND, 1).admitted);
    assert_eq!(kept(later.as_ref()), 0);
}

#[test]
fn a_denial_under_a_quota_that_the_key_had_writes_nothing() {
    let (high, low) = (gcra(10, 10), gcra(2, 10));
    let mut state = None;
    assert!(charge(&mut state, &high, START, 10).admitted);
    assert_eq!(charge(&mut state, &low, START, 1).writes.len(), 1, "the first contact");
    for rule in [&high, &low, &high] {
        assert_eq!(charge(&mut state, rule, START + 1, 1).writes, []);
    }
}

#[test]
fn a_cut_locks_out_no_longer_than_the_new_quota_needs() {
    let (high, low) = (gcra(100, 3_600), gcra(2, 10));
    let mut state = None;
    assert!(charge(&mut state, &high, START, 100).admitted);
    let denied = charge(&mut state, &low, START, 1);
    assert_eq!(denied.decisions[0].retry_after_ms, Some(5_000));
    assert!(charge(&mut state, &low, START + 5 * SECOND, 1).admitted);
}

#[test]
fn of_too_many_quotas_those_that_owe_most_stay() {
    let rules: Vec<Rule> = (1..=6).map(|limit| gcra(limit * 10, 3_600)).collect();
    let mut state = None;
    assert!(charge(&mut state, &rules[5], START, 60).admitted);
    for rule in &rules[..5] {
        assert!(!charge(&mut state, rule, START, 1).admitted);
    }
    let state = state.unwrap();
    let mut kept: Vec<u64> = state.others.iter().map(|other| other.quota_id.0[3]).collect();
    kept.sort_unstable();
    assert_eq!((state.quota_id.0[3], kept), (50, vec![30, 40, 60]));
}

#[test]
fn a_quota_that_grants_more_does_not_make_a_log_longer() {
    let (short, high) = (log(5, 3_600), gcra(1_000, 3_600));
    let mut state = None;
    assert!(charge(&mut state, &short, START, 5).admitted);
    for at in 0..500 {
        assert!(charge(&mut state, &high, START + 1 + at * SECOND, 1).admitted, "{at}");
    }
    let words = state.as_ref().unwrap().others[0].words.clone();
    assert_eq!(words.len(), 2 * 64);
    let units: u64 = words.as_chunks::<2>().0.iter().map(|[_, units]| units).sum();
    assert_eq!(units, 505);
    // All of them count until the last has left.
    let end = START + 1 + (499 + 3_600) * SECOND;
    assert!(!charge(&mut state.clone(), &short, end - 1, 5).admitted);
    assert!(charge(&mut state, &short, end, 5).admitted);
}

#[test]
fn a_state_that_is_none_of_its_quota_is_refused_beside_others_too() {
    let (high, low) = (gcra(10, 10), gcra(2, 10));
    let mut state = None;
    assert!(charge(&mut state, &high, START, 1).admitted);
    assert!(charge(&mut state, &low, START, 1).admitted);
    let state = state.unwrap();
    let mut damaged = state.clone();
    damaged.others[0].words = Words::new(&[u64::MAX]);
    let migrated = migrate_state(&high, &damaged, Now::at(START)).map_err(|error| error.code());
    assert_eq!(migrated, Err(Code::CorruptState));
    let write = low.step(&state.words, Now::at(START + 9 * SECOND), Cost::ONE).write.unwrap();
    let next = next_state(&low, write, (&damaged.others, None), Now::at(START));
    assert_eq!(next.map_err(|error| error.code()), Err(Code::CorruptState));
}
