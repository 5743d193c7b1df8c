//! The attempts of one operation: a time limit, and waits between attempts.
//!
//! Throttling is an answer, and an attacker can cause it. An operation therefore fails with
//! `queue_full` after a few throttled attempts, before the deadline of a check expires, which would
//! look like an outage.

use core::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_core::store::Backoff;
use tollgate_core::{BoxFuture, Code, Error, Result};

use crate::error::RequestError;

/// The longest wait before the first retry. It doubles with each further one.
const BASE_BACKOFF: Duration = Duration::from_millis(5);
/// The longest wait before any retry.
const MAX_BACKOFF: Duration = Duration::from_millis(200);
/// Throttled attempts in a row. The waits between them take 75 ms at most, 38 ms on average.
const THROTTLED_MAX: u32 = 5;

/// Replaces time limits that `Instant` cannot represent.
const FOR_EVER: Duration = Duration::from_secs(365 * 86_400);

/// The time limit of one operation, and its retries.
#[derive(Debug)]
pub(crate) struct Attempts {
    end: Instant,
    backoff: Backoff,
    /// Throttled attempts in a row.
    throttled: u32,
}

impl Attempts {
    pub(crate) fn within(limit: Duration) -> Self {
        let now = Instant::now();
        let end = now.checked_add(limit).unwrap_or_else(|| now + FOR_EVER);
        Self { end, backoff: Backoff::endless(BASE_BACKOFF, MAX_BACKOFF), throttled: 0 }
    }

    /// Records whether the last attempt was throttled.
    pub(crate) const fn record_throttled(&mut self, is_throttled: bool) {
        self.throttled = if is_throttled { self.throttled.saturating_add(1) } else { 0 };
    }

    const fn is_throttled_for_long(&self) -> bool {
        self.throttled >= THROTTLED_MAX
    }

    /// Runs one attempt within the time limit. Boxed: the futures of the AWS SDK are nested too
    /// deeply for the compiler inside of a caller's future.
    pub(crate) async fn run<T>(
        &self,
        attempt: BoxFuture<'_, Result<T, RequestError>>,
    ) -> Result<T, RequestError> {
        let timed_out = |_| {
            let message = "DynamoDB did not answer in time";
            Err(RequestError::TimedOut(Error::new(Code::Timeout, message)))
        };
        timeout_at(self.end, attempt).await.unwrap_or_else(timed_out)
    }

    /// Waits before the next attempt. Returns `false` if there is none.
    pub(crate) async fn wait(&mut self) -> bool {
        let Some(wait) = self.backoff.next_wait() else { return false };
        let next = Instant::now() + wait;
        if next >= self.end || self.is_throttled_for_long() {
            return false;
        }
        sleep_until(next).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_time_limit_is_accepted() {
        let attempts = Attempts::within(Duration::MAX);
        assert!(attempts.end > Instant::now() + FOR_EVER / 2);
    }

    #[test]
    fn throttled_attempts_are_retried_a_few_times_in_a_row() {
        let mut attempts = Attempts::within(Duration::from_secs(60));
        for _ in 1..THROTTLED_MAX {
            attempts.record_throttled(true);
            assert!(!attempts.is_throttled_for_long());
        }
        attempts.record_throttled(true);
        assert!(attempts.is_throttled_for_long(), "then it is the answer");
        attempts.record_throttled(false);
        assert!(!attempts.is_throttled_for_long());
    }
}
