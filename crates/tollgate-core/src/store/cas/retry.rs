//! How long a lost race waits: bounded, exponential, jittered.
//!
//! Writers that lost together must not come back together, so each waits a random part of a bound
//! that doubles with every loss ("full jitter"). A backend that was told what is there now waits less
//! and no longer each time: what it was told ages, and would only lose again. The waiting is done on the adapter's clock, so that
//! tests never sleep.

use core::hash::{BuildHasher, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::RandomState;

use super::lanes::Ticket;
use crate::clock::{Clock, sleep_until};
use crate::error::{Code, Error};
use crate::time::Micros;

/// Ten losses in a row, with the waits between them, are well beyond any deadline of a check.
const MAX_RETRIES: u32 = 10;
const BASE_BACKOFF: Micros = 2_000;
const MAX_BACKOFF: Micros = 100_000;

/// The bounds, and the source of jitter.
#[derive(Debug)]
pub(super) struct Retry {
    pub(super) max_retries: u32,
    pub(super) base: Micros,
    pub(super) max: Micros,
    random: AtomicU64,
}

impl Retry {
    pub(super) fn new() -> Self {
        // The keys of a `RandomState` are the only randomness the standard library hands out.
        Self::seeded(RandomState::new().build_hasher().finish())
    }

    pub(super) const fn seeded(seed: u64) -> Self {
        Self {
            max_retries: MAX_RETRIES,
            base: BASE_BACKOFF,
            max: MAX_BACKOFF,
            random: AtomicU64::new(seed),
        }
    }

    /// Whether an admission that has lost this often must give up.
    pub(super) const fn is_exhausted(&self, losses: u32) -> bool {
        losses > self.max_retries
    }

    /// Waits before the next attempt, after `losses` lost ones; `is_told` if what is there now came
    /// back with the last of them.
    pub(super) async fn wait(&self, losses: u32, is_told: bool, clock: &dyn Clock) {
        let wait = self.pause(losses, is_told);
        if wait > 0 {
            sleep_until(clock, clock.now().saturating_add(wait)).await;
        }
    }

    fn pause(&self, losses: u32, is_told: bool) -> Micros {
        if is_told { self.jittered(1) / 4 } else { self.jittered(losses) }
    }

    /// A random time up to base × 2^(losses − 1), and never above the maximum.
    fn jittered(&self, losses: u32) -> Micros {
        let doublings = losses.saturating_sub(1).min(63);
        let bound = u128::from(self.base) << doublings;
        let bound = bound.min(u128::from(self.max)) + 1;
        // The high half of a 64×64-bit product: uniform below `bound`, without a division.
        let scaled = (u128::from(self.next_random()) * bound) >> 64;
        u64::try_from(scaled).unwrap_or(self.max)
    }

    /// SplitMix64: one atomic addition and a mix, good enough to spread waits.
    fn next_random(&self) -> u64 {
        const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.random.fetch_add(GAMMA, Ordering::Relaxed).wrapping_add(GAMMA);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Every attempt lost its race: nothing was charged.
pub(super) fn exhausted() -> Error {
    Error::new(Code::ConflictExhausted, "other writers kept changing the key; nothing was charged")
}

/// The time was up while others were served.
pub(super) fn held_up(ticket: &Ticket) -> Option<Error> {
    if !ticket.is_held_up() {
        return None;
    }
    let message = "others kept the key busy until the time was up; the charge may be spent";
    let code = if ticket.has_tried() { Code::ConflictExhausted } else { Code::QueueFull };
    Some(Error::new(code, message))
}

/// Its turn came when most of its time was gone: nothing was begun.
pub(super) fn too_late(ticket: &Ticket) -> Error {
    let (code, message) = if ticket.is_held_up() {
        (Code::QueueFull, "others kept the key busy for too long; nothing was charged")
    } else {
        (Code::Timeout, "the store was silent for too long; nothing was charged")
    };
    Error::new(code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_stay_within_bounds_that_double_up_to_the_maximum() {
        let retry = Retry::seeded(7);
        for losses in 0..80_u32 {
            let doubled = 2_000_u128 << losses.saturating_sub(1);
            let bound = doubled.min(100_000);
            let longest = (0..200).map(|_| retry.jittered(losses)).max();
            let longest = u128::from(longest.unwrap_or(0));
            assert!(longest <= bound, "{losses} losses waited {longest}");
            assert!(longest > bound / 2, "{losses} losses only waited {longest}: no jitter");
        }
    }

    #[test]
    fn whoever_was_told_waits_a_little_however_often_it_lost() {
        let retry = Retry::seeded(7);
        for losses in 1..80_u32 {
            let longest = (0..200).map(|_| retry.pause(losses, true)).max().unwrap();
            assert!((250..=500).contains(&longest), "{losses} losses waited {longest}");
        }
    }
}
