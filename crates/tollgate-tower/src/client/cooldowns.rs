//! The cooldowns of servers, and the random shares that extend waits.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate::Micros;
use tollgate::store::Jitter;

/// The most servers in the table. A request to a server without an entry is sent at once, and its
/// response states the cooldown again.
const SERVERS_MAX: usize = 10_000;
const PERCENT: u64 = 100;

/// The time until which no request is sent, for each server.
#[derive(Debug, Default)]
pub(super) struct Cooldowns {
    until: Mutex<HashMap<String, Micros>>,
}

impl Cooldowns {
    /// The end of the cooldown of a server; 0 when it has none.
    pub(super) fn until(&self, server: &str) -> Micros {
        self.lock().get(server).copied().unwrap_or(0)
    }

    /// Extends the cooldown of a server. An earlier end is ignored.
    pub(super) fn extend(&self, server: &str, until: Micros, now: Micros) {
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

/// Extends waits by random shares, so that waiting clients do not return at the same time.
#[derive(Debug)]
pub(super) struct RandomShare {
    percent: u64,
    jitter: Jitter,
}

impl RandomShare {
    /// Extends waits by up to this many percent.
    pub(super) fn new(percent: u8) -> Self {
        Self { percent: u64::from(percent), jitter: Jitter::new() }
    }

    /// A wait with a random share added.
    pub(super) fn add_to(&self, wait: Micros) -> Micros {
        let most = u128::from(wait) * u128::from(self.percent) / u128::from(PERCENT);
        // The high half of the product is uniform from 0 to `most`.
        let share = (u128::from(self.jitter.next()) * (most + 1)) >> 64;
        wait.saturating_add(u64::try_from(share).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_adds_every_share_and_never_shortens_a_wait() {
        let share = |percent| RandomShare { percent, jitter: Jitter::seeded(7) };
        let ten = share(10);
        let waits: Vec<u64> = (0..2_000).map(|_| ten.add_to(100)).collect();
        let seen: std::collections::BTreeSet<u64> = waits.into_iter().collect();
        assert_eq!(seen, (100..=110).collect());
        assert_eq!(share(0).add_to(100), 100);
        assert_eq!(share(100).add_to(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_cooldown_ends_at_the_latest_time_that_was_stated() {
        let cooldowns = Cooldowns::default();
        assert_eq!(cooldowns.until("a"), 0);
        cooldowns.extend("a", 20, 10);
        cooldowns.extend("a", 15, 10);
        assert_eq!((cooldowns.until("a"), cooldowns.until("b")), (20, 0));
    }

    #[test]
    fn the_table_is_bounded() {
        let cooldowns = Cooldowns::default();
        for server in 0..SERVERS_MAX + 100 {
            cooldowns.extend(&server.to_string(), 20, 10);
        }
        assert_eq!(cooldowns.lock().len(), SERVERS_MAX);
        cooldowns.extend("new", 40, 30);
        assert_eq!(cooldowns.lock().len(), 1, "ended cooldowns are removed");
    }
}
