//! Tests of the memory store: what holds under threads, under eviction and under odd clocks.
//!
//! Everything random comes from a seed that is printed; `TOLLGATE_SEED` sets it.

mod clocks;
mod evict;
mod exact;
mod fill;
mod flood;
mod grow;
mod isolation;
mod model;
mod paths;
mod records;
mod spread;

use core::time::Duration;

use super::Memory;
use super::table::Table;
use crate::algorithm::{
    Anchor, FixedWindow, Gcra, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket,
};
use crate::charge::Charge;
use crate::cost::Cost;
use crate::decision::Decision;
use crate::limit::Limit;
use crate::quota::Quota;
use crate::rule::Rule;
use crate::store::{Store, SyncStore};
use crate::time::Micros;

/// In the middle of a window of any round length.
const T0: Micros = 1_700_000_020_500_000;
const SECOND: Micros = 1_000_000;

/// Every algorithm with the same ceiling, in every form a line can hold: one word, short, long.
fn rules(limit: u64, period: Duration) -> Vec<(&'static str, Rule)> {
    let quota = Quota::new(limit, period);
    // 1,031 units share no factor with any round period: too fine for one word.
    let fine = Quota::new(1_031, period * 1_031 / u32::try_from(limit).unwrap());
    vec![
        ("gcra", Rule::new(Gcra::new(quota).unwrap())),
        ("gcra, two words", Rule::new(Gcra::with_burst(fine, limit).unwrap())),
        ("token_bucket", Rule::new(TokenBucket::new(limit, quota).unwrap())),
        ("leaky_bucket", Rule::new(LeakyBucket::new(quota, limit - 1).unwrap())),
        ("fixed_window", Rule::new(FixedWindow::new(quota, Anchor::Epoch).unwrap())),
        ("fixed_window, first_hit", Rule::new(FixedWindow::new(quota, Anchor::FirstHit).unwrap())),
        ("sliding_window", Rule::new(SlidingWindow::new(quota).unwrap())),
        ("sliding_window, 5 buckets", Rule::new(SlidingWindow::with_buckets(quota, 5).unwrap())),
        ("sliding_log", Rule::new(SlidingLog::new(quota).unwrap())),
    ]
}

fn limit_of(rule: &Rule) -> Limit {
    Limit::with_rule("p", rule.clone()).unwrap()
}

fn store(max_keys: usize) -> Memory {
    Memory::builder().max_keys(max_keys).build().unwrap()
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

fn check(memory: &Memory, limit: &Limit, subject: &str, at: Micros) -> Decision {
    memory.check_sync(&limit.charge(subject), at).unwrap()
}

fn admits(memory: &Memory, limit: &Limit, subject: &str, at: Micros) -> bool {
    check(memory, limit, subject, at).is_allowed()
}

/// Spends all there is; how much that was.
fn drain(memory: &Memory, limit: &Limit, subject: &str, at: Micros) -> u64 {
    (0..).take_while(|_| admits(memory, limit, subject, at)).count() as u64
}

/// The table of a policy.
fn table<'a>(memory: &'a Memory, limit: &Limit) -> &'a Table {
    &memory.0.states.of(limit).table
}

/// Whether the key has a line.
fn is_held(memory: &Memory, charge: &Charge<'_>) -> bool {
    let (id, table) = (memory.id(charge), table(memory, charge.limit));
    table.find(id, table.hash_of(id)).is_some()
}

/// `SplitMix64`.
struct Rng(u64);

impl Rng {
    /// Seeded from the environment or at random, and says so.
    fn new(what: &str) -> Self {
        let given = std::env::var("TOLLGATE_SEED").ok().and_then(|seed| seed.parse().ok());
        let random = || {
            use std::hash::{BuildHasher, RandomState};
            RandomState::new().hash_one(what)
        };
        let seed = given.unwrap_or_else(random);
        println!("{what}: TOLLGATE_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

#[test]
fn the_store_says_what_it_can_do() {
    let capability = Memory::new().capability();
    assert!(capability.exact && capability.idempotent && capability.in_process);
    assert!(!capability.durable && !capability.own_clock);
    assert_eq!(capability.multi_key, crate::store::MultiKey::Atomic);
}
