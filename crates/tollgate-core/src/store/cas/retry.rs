//! What a lost race does: waits a little, or gives up.
//!
//! How long is up to [`Retries`]. A backend that was told what is there now waits less and no longer each
//! time: what it was told ages, and would only lose again. The waiting is done on the adapter's clock, so
//! that tests never sleep.

use core::hash::{BuildHasher, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::RandomState;

use super::Retries;
use super::lanes::Ticket;
use crate::clock::{Clock, sleep_until};
use crate::error::{Code, Error};
use crate::time::Micros;

/// The bounds, and the source of jitter.
#[derive(Debug)]
pub(super) struct Retry {
    pub(super) retries: Retries,
    random: AtomicU64,
}

impl Retry {
    pub(super) fn new() -> Self {
        // The keys of a `RandomState` are the only randomness the standard library hands out.
        Self::seeded(RandomState::new().build_hasher().finish())
    }

    pub(super) fn seeded(seed: u64) -> Self {
        Self { retries: Retries::default(), random: AtomicU64::new(seed) }
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
        let random = self.next_random();
        if is_told { self.retries.wait(1, random) / 4 } else { self.retries.wait(losses, random) }
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
    fn waits_vary() {
        let retry = Retry::seeded(7);
        let waits: Vec<Micros> = (0..200).map(|_| retry.pause(3, false)).collect();
        let (shortest, longest) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
        assert!(*longest <= 8_000 && *longest > 4_000 && *shortest < 4_000, "{waits:?}");
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
