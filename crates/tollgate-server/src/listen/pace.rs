//! How fast clients may come and go that make no valid request.
//!
//! Each of them costs a handshake and whatever it sends until it is closed. On a full listener each
//! takes the place of another one, which may connect again at once: without a bound, such clients
//! keep the processors busy. Beyond the bound the listener accepts nothing for a moment, and those
//! that connect wait in the backlog of the operating system.

use std::time::Duration;

use tokio::time::Instant;

/// The time of one such client.
const PERIOD: Duration = Duration::from_millis(1);
/// As many as may come at once after a quiet time.
const BURST: u32 = 64;

/// The clients that left without a valid request.
#[derive(Debug)]
pub(super) struct Pace {
    /// When the times of all of them are over.
    over_at: Instant,
}

impl Default for Pace {
    fn default() -> Self {
        Self { over_at: Instant::now() }
    }
}

impl Pace {
    /// A client left without a valid request.
    pub(super) fn count(&mut self, now: Instant) {
        self.over_at = self.over_at.max(now) + PERIOD;
    }

    /// How long the listener is to wait before it accepts the next connection.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.over_at.saturating_duration_since(now + PERIOD * BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_burst_have_to_wait() {
        let now = Instant::now();
        let mut pace = Pace { over_at: now };
        for _ in 0..BURST {
            assert_eq!(pace.wait(now), Duration::ZERO);
            pace.count(now);
        }
        assert_eq!(pace.wait(now), Duration::ZERO);
        pace.count(now);
        assert_eq!(pace.wait(now), PERIOD);
        assert_eq!(pace.wait(now + PERIOD), Duration::ZERO);
    }

    #[test]
    fn a_quiet_time_saves_up_no_more_than_a_burst() {
        let now = Instant::now();
        let mut pace = Pace { over_at: now };
        let later = now + Duration::from_secs(60);
        for _ in 0..=BURST {
            pace.count(later);
        }
        assert_eq!(pace.wait(later), PERIOD);
    }
}
