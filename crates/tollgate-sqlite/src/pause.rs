//! Waiting for other processes: short, jittered, and never past an instant.
//!
//! SQLite says nothing when a lock is free, so that it has to be asked again. The waits double, and are
//! random within their bound: those who collided do not come back together.

use core::hash::{BuildHasher, Hasher};
use core::time::Duration;
use std::hash::RandomState;
use std::thread;

use tollgate_core::{Clock, Micros, SystemClock};

use crate::fault::Fault;

const FIRST: Micros = 100;
/// A commit takes about so long on a good disk; asking costs a few microseconds.
const LONGEST: Micros = 2_000;

/// The waits of one attempt to get something.
#[derive(Debug)]
pub(crate) struct Pause {
    bound: Micros,
}

impl Pause {
    pub(crate) const fn new() -> Self {
        Self { bound: FIRST }
    }

    /// Waits a little.
    pub(crate) fn wait(&mut self) {
        // Nobody wakes this thread on purpose; waking early only asks once more.
        thread::park_timeout(Duration::from_micros(self.next_wait(random())));
    }

    /// A random part of a bound that doubles, and at least one microsecond.
    fn next_wait(&mut self, random: u64) -> Micros {
        // The high half of a 64×64-bit product: uniform below the bound, without a division.
        let wait = (u128::from(random) * u128::from(self.bound)) >> 64;
        self.bound = (2 * self.bound).min(LONGEST);
        u64::try_from(wait).unwrap_or(LONGEST) + 1
    }
}

/// Tries until it is not busy any more, or until `limit` has passed.
pub(crate) fn patiently<T>(
    clock: &SystemClock,
    limit: Duration,
    mut attempt: impl FnMut() -> Result<T, Fault>,
) -> Result<T, Fault> {
    let end = clock.now().saturating_add(crate::config::micros(limit));
    let mut pause = Pause::new();
    loop {
        match attempt() {
            Err(Fault::Busy) if clock.now() < end => pause.wait(),
            settled => return settled,
        }
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
    fn waits_double_up_to_the_longest() {
        let mut pause = Pause::new();
        let waits: Vec<_> = (0..7).map(|_| pause.next_wait(u64::MAX)).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1_600, 2_000, 2_000]);
        assert_eq!(pause.next_wait(0), 1);
    }
}
