//! Random waits between attempts to connect, so that clients do not come back together.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tollgate_core::store::Retries;

/// The wait after this many failures in a row: a random part of `first`, doubled with each, up to `longest`.
pub(super) fn wait(failures: u32, first: Duration, longest: Duration) -> Duration {
    let waits = Retries::default().base_backoff(first).max_backoff(longest);
    Duration::from_micros(waits.wait(failures, random()))
}

/// A number that other processes do not share. The keys of a hasher are random.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}
