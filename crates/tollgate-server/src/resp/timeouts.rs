//! How long a client may be silent: who has said nothing yet, or half a command, not for long.

use std::time::Duration;

use tokio::time::Instant;

/// How long the first byte of a connection may take.
const FIRST_BYTE_WITHIN: Duration = Duration::from_secs(10);
/// How long a client may take to send a command, from its first byte to its last.
const COMMAND_WITHIN: Duration = Duration::from_secs(10);
/// How long a client may be idle between commands.
const IDLE_FOR: Duration = Duration::from_secs(600);

/// How long a client may take to say who it is, whatever else it says.
const TOKEN_WITHIN: Duration = Duration::from_secs(10);

/// Until when a client has time to say more.
#[derive(Debug)]
pub(super) struct Patience {
    until: Instant,
    /// Whether a command has begun and not ended.
    begun: bool,
    /// Until when a client that may not ask yet has time for that.
    stranger_until: Option<Instant>,
}

impl Patience {
    /// With a client that has just connected, and may ask or has to say who it is.
    pub(super) fn new(now: Instant, permitted: bool) -> Self {
        let stranger_until = (!permitted).then(|| now + TOKEN_WITHIN);
        Self { until: now + FIRST_BYTE_WITHIN, begun: false, stranger_until }
    }

    pub(super) fn until(&self) -> Instant {
        self.stranger_until.map_or(self.until, |end| end.min(self.until))
    }

    /// Bytes came. Those that go on with a command give no more time for it.
    pub(super) fn heard(&mut self, now: Instant) {
        if !self.begun {
            (self.until, self.begun) = (now + COMMAND_WITHIN, true);
        }
    }

    /// Commands were answered, and perhaps the next one has begun; whether the client may ask.
    pub(super) fn answered(&mut self, now: Instant, begun: bool, permitted: bool) {
        self.until = now + if begun { COMMAND_WITHIN } else { IDLE_FOR };
        self.begun = begun;
        let stranger_until = self.stranger_until.unwrap_or(now + TOKEN_WITHIN);
        self.stranger_until = (!permitted).then_some(stranger_until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_one_command_share_their_time() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut patience = Patience::new(start, true);
        assert_eq!(patience.until(), after(10));
        patience.heard(after(9));
        patience.heard(after(18));
        assert_eq!(patience.until(), after(19));
        patience.answered(after(19), true, true);
        patience.heard(after(28));
        assert_eq!(patience.until(), after(29));
        patience.answered(after(29), false, true);
        assert_eq!(patience.until(), after(629));
        patience.heard(after(600));
        assert_eq!(patience.until(), after(610));
    }

    #[test]
    fn who_has_no_token_gets_no_more_time_by_talking() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut patience = Patience::new(start, false);
        for second in 1..9 {
            patience.heard(after(second));
            patience.answered(after(second), false, false);
            assert_eq!(patience.until(), after(10));
        }
        // A token in time, and another one later that is wrong.
        patience.answered(after(9), false, true);
        assert_eq!(patience.until(), after(609));
        patience.answered(after(20), false, false);
        patience.answered(after(25), true, false);
        assert_eq!(patience.until(), after(30));
    }
}
