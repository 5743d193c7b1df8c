//! Waits between attempts: one back-off for all stores.

use core::hash::{BuildHasher, Hasher};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::hash::RandomState;

use super::Retries;
use crate::time::Micros;

/// Random numbers that spread waits: callers that failed together must not come back together.
#[derive(Debug)]
pub struct Jitter(AtomicU64);

impl Jitter {
    /// Numbers that no other process shares.
    #[must_use]
    pub fn new() -> Self {
        // The keys of a `RandomState` are the only randomness of the standard library.
        Self::seeded(RandomState::new().build_hasher().finish())
    }

    /// The same numbers in every run.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next number, random in all its bits (SplitMix64).
    pub fn next(&self) -> u64 {
        const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.0.fetch_add(GAMMA, Relaxed).wrapping_add(GAMMA);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

impl Default for Jitter {
    fn default() -> Self {
        Self::new()
    }
}

/// The attempts of one piece of work: how long to wait before the next one.
///
/// Each wait is a random part of a bound that doubles ([`Retries`]).
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::store::{Backoff, Retries};
///
/// let mut backoff = Backoff::new(Retries::default().max_retries(2));
/// assert!(backoff.next_wait().unwrap() <= Duration::from_millis(2));
/// assert!(backoff.next_wait().unwrap() <= Duration::from_millis(4));
/// assert!(backoff.next_wait().is_none(), "two retries, and no more");
/// ```
#[derive(Debug)]
pub struct Backoff {
    retries: Retries,
    attempts: u32,
    jitter: Jitter,
}

impl Backoff {
    /// No attempt has failed yet.
    #[must_use]
    pub fn new(retries: Retries) -> Self {
        Self::with_jitter(retries, Jitter::new())
    }

    const fn with_jitter(retries: Retries, jitter: Jitter) -> Self {
        Self { retries, attempts: 0, jitter }
    }

    /// Waits between `first` and `longest` at most, and no bound on the attempts: for connections,
    /// and for locks that are tried until a deadline.
    #[must_use]
    pub fn endless(first: Duration, longest: Duration) -> Self {
        Self::new(Retries::default().max_retries(u32::MAX).base_backoff(first).max_backoff(longest))
    }

    /// An attempt has succeeded: the waits begin anew.
    pub const fn reset(&mut self) {
        self.attempts = 0;
    }

    /// An attempt has failed: how long to wait before the next one; `None` if there is none.
    #[must_use]
    pub fn next_wait(&mut self) -> Option<Duration> {
        self.attempts = self.attempts.saturating_add(1);
        if self.retries.is_exhausted(self.attempts) {
            return None;
        }
        let wait: Micros = self.retries.wait(self.attempts, self.jitter.next());
        Some(Duration::from_micros(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_vary_within_bounds_that_double() {
        for attempts in 0..40_u32 {
            let bound = Duration::from_micros((2_000_u64 << attempts.min(30)).min(100_000));
            let waits = (0..200).map(|seed| {
                let retries = Retries::default().max_retries(100);
                let mut backoff = Backoff::with_jitter(retries, Jitter::seeded(seed));
                (0..attempts).for_each(|_| assert!(backoff.next_wait().is_some()));
                backoff.next_wait().unwrap()
            });
            let waits: Vec<_> = waits.collect();
            let (shortest, longest) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
            assert!(*longest <= bound && *longest > bound / 2 && *shortest < bound / 2);
        }
    }

    #[test]
    fn an_endless_back_off_starts_over_after_a_success() {
        let mut backoff = Backoff::endless(Duration::from_millis(1), Duration::from_secs(1));
        (0..50).for_each(|_| assert!(backoff.next_wait().is_some()));
        assert_eq!(backoff.attempts, 50);
        backoff.reset();
        assert!(backoff.next_wait().unwrap() <= Duration::from_millis(1));
    }
}
