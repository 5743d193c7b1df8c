//! The attempts of one round: how many are left, and the wait before the next.

use core::hash::{BuildHasher, Hasher};
use core::time::Duration;
use std::hash::RandomState;

use tollgate_core::store::Retries;

use crate::config::Config;

/// The attempts of one round.
#[derive(Debug)]
pub(crate) struct Retry {
    retries: Retries,
    losses: u32,
}

impl Retry {
    pub(crate) const fn new(config: &Config) -> Self {
        Self { retries: config.retries, losses: 0 }
    }

    /// Waits before the next attempt; false when there is none.
    pub(crate) async fn again(&mut self) -> bool {
        self.losses = self.losses.saturating_add(1);
        if self.retries.is_exhausted(self.losses) {
            return false;
        }
        let wait = self.retries.wait(self.losses, random());
        tokio::time::sleep(Duration::from_micros(wait)).await;
        true
    }
}

/// The keys of a `RandomState` are the only randomness the standard library hands out.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
