//! How long a conflict waits: bounded, exponential, jittered, so that those who collided do not
//! come back together.

use core::hash::{BuildHasher, Hasher};
use core::time::Duration;
use std::hash::RandomState;

use crate::config::Config;

/// The attempts of one round.
#[derive(Debug)]
pub(crate) struct Retry {
    left: u32,
    bound: Duration,
    longest: Duration,
}

impl Retry {
    pub(crate) fn new(config: &Config) -> Self {
        let longest = config.max_backoff;
        Self { left: config.max_retries, bound: config.base_backoff.min(longest), longest }
    }

    /// Waits before the next attempt; false when there is none.
    pub(crate) async fn again(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(1) else {
            return false;
        };
        self.left = left;
        tokio::time::sleep(self.next_wait(random())).await;
        true
    }

    /// A random part of a bound that doubles.
    fn next_wait(&mut self, random: u64) -> Duration {
        let bound = u128::from(u64::try_from(self.bound.as_micros()).unwrap_or(u64::MAX));
        self.bound = self.bound.saturating_mul(2).min(self.longest);
        // The high half of a 64×64-bit product: uniform up to the bound, without a division.
        let wait = (u128::from(random) * (bound + 1)) >> 64;
        Duration::from_micros(u64::try_from(wait).unwrap_or(u64::MAX))
    }
}

/// The keys of a `RandomState` are the only randomness the standard library hands out.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_end() {
        let longest = Duration::from_millis(5);
        let mut retry = Retry { left: 4, bound: Duration::from_millis(2), longest };
        let waits: Vec<_> = (0..4).map(|_| retry.next_wait(u64::MAX).as_micros()).collect();
        assert_eq!(waits, [2_000, 4_000, 5_000, 5_000]);
        assert_eq!(retry.next_wait(0), Duration::ZERO);
    }
}
