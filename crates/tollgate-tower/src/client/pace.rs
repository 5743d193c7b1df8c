//! Until when each server is left alone, and how waits are spread.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate::Micros;

/// Servers remembered at most. One that is forgotten is asked too early once, and says so again.
const SERVERS_MAX: usize = 10_000;
const PERCENT: u64 = 100;

/// Until when each server is left alone.
#[derive(Debug, Default)]
pub(super) struct Pace {
    until: Mutex<HashMap<String, Micros>>,
}

impl Pace {
    /// When a request to this server may be sent; 0 when nothing is known.
    pub(super) fn not_before(&self, server: &str) -> Micros {
        self.lock().get(server).copied().unwrap_or(0)
    }

    /// Leaves a server alone until then, or longer if it has said so before.
    pub(super) fn hold(&self, server: &str, until: Micros, now: Micros) {
        let mut all = self.lock();
        if all.len() >= SERVERS_MAX {
            all.retain(|_, until| *until > now);
        }
        if let Some(known) = all.get_mut(server) {
            *known = until.max(*known);
        } else if all.len() < SERVERS_MAX {
            all.insert(server.to_owned(), until);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Micros>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes waits a little longer, each by another share, so that those who wait do not come back as a
/// herd. Never shorter.
#[derive(Debug)]
pub(super) struct Jitter {
    percent: u64,
    state: Mutex<u64>,
}

impl Jitter {
    /// Waits grow by up to so many percent.
    pub(super) fn new(percent: u8, seed: Option<u64>) -> Self {
        let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0_u8));
        Self { percent: u64::from(percent), state: Mutex::new(seed) }
    }

    /// The wait with its share on top.
    pub(super) fn stretched(&self, wait: Micros) -> Micros {
        let most = u128::from(wait) * u128::from(self.percent) / u128::from(PERCENT);
        // The high half of the product is uniform from 0 to `most`.
        let share = (u128::from(self.next()) * (most + 1)) >> 64;
        wait.saturating_add(u64::try_from(share).unwrap_or(u64::MAX))
    }

    /// SplitMix64: nobody's secret depends on it.
    fn next(&self) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_by_all_shares_and_never_shrink() {
        let jitter = Jitter::new(10, Some(7));
        let waits: Vec<u64> = (0..2_000).map(|_| jitter.stretched(100)).collect();
        let seen: std::collections::BTreeSet<u64> = waits.into_iter().collect();
        assert_eq!(seen, (100..=110).collect());
        assert_eq!(Jitter::new(0, Some(7)).stretched(100), 100);
        assert_eq!(Jitter::new(100, Some(7)).stretched(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_server_is_left_alone_until_the_latest_time_it_named() {
        let pace = Pace::default();
        assert_eq!(pace.not_before("a"), 0);
        pace.hold("a", 20, 10);
        pace.hold("a", 15, 10);
        assert_eq!((pace.not_before("a"), pace.not_before("b")), (20, 0));
    }

    #[test]
    fn the_table_is_bounded() {
        let pace = Pace::default();
        for server in 0..SERVERS_MAX + 100 {
            pace.hold(&server.to_string(), 20, 10);
        }
        assert_eq!(pace.lock().len(), SERVERS_MAX);
        pace.hold("new", 40, 30);
        assert_eq!(pace.lock().len(), 1, "those whose time has come are forgotten");
    }
}
