//! Timeouts of a connection: short before the first command and within one, long between commands.

use std::time::Duration;

use tokio::time::Instant;

/// How long the first byte of a connection may take.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to send a command, from its first byte to its last.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may be idle between commands.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// How long a client without a token may take to authenticate, whatever else it sends.
const AUTH_TIMEOUT: Duration = Duration::from_secs(10);

/// The deadline of the next read.
#[derive(Debug)]
pub(super) struct Timeouts {
    deadline: Instant,
    /// Whether a part of a command has arrived.
    in_command: bool,
    /// The deadline of authentication, for a client that needs it.
    auth_deadline: Option<Instant>,
}

impl Timeouts {
    /// Of a client that has just connected, with or without the right to send commands.
    pub(super) fn new(now: Instant, permitted: bool) -> Self {
        let auth_deadline = (!permitted).then(|| now + AUTH_TIMEOUT);
        Self { deadline: now + FIRST_BYTE_TIMEOUT, in_command: false, auth_deadline }
    }

    /// The deadline of the next read.
    pub(super) fn deadline(&self) -> Instant {
        self.auth_deadline.map_or(self.deadline, |auth| auth.min(self.deadline))
    }

    /// Bytes arrived. Further bytes of a command do not extend its deadline.
    pub(super) fn received(&mut self, now: Instant) {
        if !self.in_command {
            (self.deadline, self.in_command) = (now + COMMAND_TIMEOUT, true);
        }
    }

    /// Commands were answered; `in_command` if a part of the next one has arrived.
    pub(super) fn answered(&mut self, now: Instant, in_command: bool, permitted: bool) {
        self.deadline = now + if in_command { COMMAND_TIMEOUT } else { IDLE_TIMEOUT };
        self.in_command = in_command;
        let auth_deadline = self.auth_deadline.unwrap_or(now + AUTH_TIMEOUT);
        self.auth_deadline = (!permitted).then_some(auth_deadline);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_one_command_share_a_deadline() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut timeouts = Timeouts::new(start, true);
        assert_eq!(timeouts.deadline(), after(10));
        timeouts.received(after(9));
        timeouts.received(after(18));
        assert_eq!(timeouts.deadline(), after(19));
        timeouts.answered(after(19), true, true);
        timeouts.received(after(28));
        assert_eq!(timeouts.deadline(), after(29));
        timeouts.answered(after(29), false, true);
        assert_eq!(timeouts.deadline(), after(629));
        timeouts.received(after(600));
        assert_eq!(timeouts.deadline(), after(610));
    }

    #[test]
    fn a_client_without_a_token_gets_no_more_time_by_sending() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut timeouts = Timeouts::new(start, false);
        for second in 1..9 {
            timeouts.received(after(second));
            timeouts.answered(after(second), false, false);
            assert_eq!(timeouts.deadline(), after(10));
        }
        // A valid token in time, and an invalid one later.
        timeouts.answered(after(9), false, true);
        assert_eq!(timeouts.deadline(), after(609));
        timeouts.answered(after(20), false, false);
        timeouts.answered(after(25), true, false);
        assert_eq!(timeouts.deadline(), after(30));
    }
}
