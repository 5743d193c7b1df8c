//! Waits between attempts to get a lock of another process.
//!
//! SQLite does not report when a lock becomes free, so it is polled. The waits double up to a
//! maximum and are random, so that processes that collided do not collide again.

use core::hash::{BuildHasher, Hasher};
use core::time::Duration;
use std::hash::RandomState;
use std::thread;

use tollgate_core::{Clock, Micros, SystemClock};

use crate::config::micros;
use crate::error::QueryError;

const BASE: Micros = 100;
/// About the duration of a commit on a fast disk. One attempt takes a few microseconds.
const MAX: Micros = 2_000;

/// The waits of one operation.
#[derive(Debug)]
pub(crate) struct Backoff {
    bound: Micros,
}

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self { bound: BASE }
    }

    pub(crate) fn wait(&mut self) {
        // A spurious wakeup only makes the next attempt earlier.
        thread::park_timeout(Duration::from_micros(self.next_wait(random())));
    }

    /// A random part of a bound that doubles; at least one microsecond.
    fn next_wait(&mut self, random: u64) -> Micros {
        // The high half of a 64×64-bit product: uniform below the bound, without a division.
        let wait = (u128::from(random) * u128::from(self.bound)) >> 64;
        self.bound = (2 * self.bound).min(MAX);
        u64::try_from(wait).unwrap_or(MAX) + 1
    }
}

/// Repeats an attempt while it is busy, for at most `limit`.
pub(crate) fn retry_while_busy<T>(
    clock: &SystemClock,
    limit: Duration,
    mut attempt: impl FnMut() -> Result<T, QueryError>,
) -> Result<T, QueryError> {
    let end = clock.now().saturating_add(micros(limit));
    let mut backoff = Backoff::new();
    loop {
        match attempt() {
            Err(QueryError::Busy) if clock.now() < end => backoff.wait(),
            result => return result,
        }
    }
}

/// The keys of a `RandomState` are the only randomness of the standard library.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_maximum() {
        let mut backoff = Backoff::new();
        let waits: Vec<_> = (0..7).map(|_| backoff.next_wait(u64::MAX)).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1_600, 2_000, 2_000]);
        assert_eq!(backoff.next_wait(0), 1);
    }
}
