//! How long a client may be silent: who has said nothing yet, or half a command, not for long.

use std::time::Duration;

use tokio::time::Instant;

/// How long the first byte of a connection may take.
const FIRST_BYTE_WITHIN: Duration = Duration::from_secs(10);
/// How long a client may take to send a command, from its first byte to its last.
const COMMAND_WITHIN: Duration = Duration::from_secs(10);
/// How long a client may be idle between commands.
const IDLE_FOR: Duration = Duration::from_secs(600);

/// Until when a client has time to say more.
#[derive(Debug)]
pub(super) struct Patience {
    until: Instant,
    /// Whether a command has begun and not ended.
    begun: bool,
}

impl Patience {
    /// With a client that has just connected.
    pub(super) fn new(now: Instant) -> Self {
        Self { until: now + FIRST_BYTE_WITHIN, begun: false }
    }

    pub(super) const fn until(&self) -> Instant {
        self.until
    }

    /// Bytes came. Those that go on with a command give no more time for it.
    pub(super) fn heard(&mut self, now: Instant) {
        if !self.begun {
            (self.until, self.begun) = (now + COMMAND_WITHIN, true);
        }
    }

    /// Commands were answered, and perhaps the next one has begun.
    pub(super) fn answered(&mut self, now: Instant, begun: bool) {
        self.until = now + if begun { COMMAND_WITHIN } else { IDLE_FOR };
        self.begun = begun;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_one_command_share_their_time() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut patience = Patience::new(start);
        assert_eq!(patience.until(), after(10));
        patience.heard(after(9));
        patience.heard(after(18));
        assert_eq!(patience.until(), after(19));
        patience.answered(after(19), true);
        patience.heard(after(28));
        assert_eq!(patience.until(), after(29));
        patience.answered(after(29), false);
        assert_eq!(patience.until(), after(629));
        patience.heard(after(600));
        assert_eq!(patience.until(), after(610));
    }
}
