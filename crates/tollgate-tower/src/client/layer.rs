//! The layer that makes a client polite.

use core::time::Duration;
use std::sync::Arc;

use tollgate::{Clock, Error, Limit, Result, SystemClock};
use tollgate_http::Reset;
use tower_layer::Layer;

use super::pace::{Jitter, Pace};
use super::service::{Manners, Polite};
use super::shared::Shared;
use crate::decide::Decide;

const WAIT_AT_MOST: Duration = Duration::from_secs(30);
const JITTER_PERCENT: u8 = 10;

/// Makes a client keep to what servers say about their limits. Clones share what they know.
///
/// A request that comes too early waits, with jitter, or fails at once if that would take too
/// long. Nothing is sent twice: combine with a retry layer outside of this one.
#[derive(Clone, Debug)]
#[must_use]
pub struct PoliteLayer {
    manners: Manners,
}

impl PoliteLayer {
    /// Waits up to 30 seconds, and up to 10 percent longer than asked to.
    pub fn new() -> Self {
        Self::with_clock(SystemClock::new())
    }

    /// The same with another clock.
    pub fn with_clock(clock: impl Clock + 'static) -> Self {
        let manners = Manners {
            clock: Arc::new(clock),
            pace: Arc::new(Pace::default()),
            jitter: Arc::new(Jitter::new(JITTER_PERCENT, None)),
            wait_at_most: WAIT_AT_MOST,
            x_reset: None,
            shared: None,
        };
        Self { manners }
    }

    /// How long a request waits at most, jitter included; zero fails at once.
    pub fn wait_at_most(mut self, wait: Duration) -> Self {
        self.manners.wait_at_most = wait;
        self
    }

    /// By how many percent waits grow at most.
    ///
    /// # Errors
    /// `config_invalid` naming the field `jitter` when it is over 100.
    pub fn jitter(mut self, percent: u8) -> Result<Self> {
        if percent > 100 {
            let message = format!("{percent} is out of range; accepted: 0 to 100");
            return Err(Error::config("jitter", message));
        }
        self.manners.jitter = Arc::new(Jitter::new(percent, None));
        Ok(self)
    }

    /// What `X-RateLimit-Reset` means, where the servers are known. Guessed otherwise: large numbers
    /// are instants, small ones are delays.
    pub fn x_reset(mut self, meaning: Reset) -> Self {
        self.manners.x_reset = Some(meaning);
        self
    }

    /// Takes every request from a quota that a fleet shares through a limiter: one unit, charged to
    /// the host and port that are asked.
    pub fn share(mut self, decider: impl Decide, limit: Limit) -> Self {
        self.manners.shared = Some(Arc::new(Shared { decider, limit }));
        self
    }
}

impl Default for PoliteLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for PoliteLayer {
    type Service = Polite<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Polite::new(inner, self.manners.clone())
    }
}
