//! When to repeat an operation that failed, and when to give up: one deadline, and waits that grow and vary.
//!
//! A table that is throttled is an answer, and any caller that sends enough can cause it. So an operation gives
//! up after a few throttled attempts, well before the deadline of a check: it answers `queue_full` instead of
//! letting the limiter take the store to be down.

use core::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_core::store::Backoff;
use tollgate_core::{BoxFuture, Code, Error, Result};

use crate::fault::Fault;

/// The longest wait before the first repetition; it doubles with each further one.
const BASE: Duration = Duration::from_millis(5);
/// The longest wait before any.
const LONGEST: Duration = Duration::from_millis(200);
/// Attempts that DynamoDB may throttle in a row. The waits between them take 75 ms at most, 38 ms on average.
const THROTTLED_MAX: u32 = 5;

/// For limits that no clock can count to.
const FOR_EVER: Duration = Duration::from_secs(365 * 86_400);

/// The time that is left for one operation, and how often it was repeated.
#[derive(Debug)]
pub(crate) struct Again {
    end: Instant,
    backoff: Backoff,
    /// Throttled attempts in a row.
    throttled: u32,
}

impl Again {
    pub(crate) fn within(limit: Duration) -> Self {
        let now = Instant::now();
        let end = now.checked_add(limit).unwrap_or_else(|| now + FOR_EVER);
        Self { end, backoff: Backoff::endless(BASE, LONGEST), throttled: 0 }
    }

    /// Whether the last answer was that too much is asked of the table.
    pub(crate) const fn note(&mut self, is_throttled: bool) {
        self.throttled = if is_throttled { self.throttled.saturating_add(1) } else { 0 };
    }

    const fn is_throttled_for_long(&self) -> bool {
        self.throttled >= THROTTLED_MAX
    }

    /// Runs one attempt, as long as there is time. Boxed, because the futures of Amazon's client are
    /// nested deeper than the compiler follows in a caller's own future.
    pub(crate) async fn attempt<T>(
        &self,
        attempt: BoxFuture<'_, Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let late = |_| {
            let message = "DynamoDB did not answer in time";
            Err(Fault::Late(Error::new(Code::Timeout, message)))
        };
        timeout_at(self.end, attempt).await.unwrap_or_else(late)
    }

    /// Waits before the next attempt; `false` when there is none.
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
    fn no_limit_is_too_long() {
        let again = Again::within(Duration::MAX);
        assert!(again.end > Instant::now() + FOR_EVER / 2);
    }

    #[test]
    fn throttling_is_waited_for_a_few_times_in_a_row() {
        let mut again = Again::within(Duration::from_secs(60));
        for _ in 1..THROTTLED_MAX {
            again.note(true);
            assert!(!again.is_throttled_for_long());
        }
        again.note(true);
        assert!(again.is_throttled_for_long(), "then it is the answer");
        again.note(false);
        assert!(!again.is_throttled_for_long());
    }
}
