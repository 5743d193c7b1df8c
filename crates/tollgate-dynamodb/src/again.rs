//! When to repeat what failed, and when to give up: one deadline, and waits that grow and vary.
//!
//! The limiter's deadline is usually shorter: whoever has been throttled until then says so, because
//! anybody who asks enough of a table can cause that.

use core::hash::{BuildHasher, Hasher};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::hash::RandomState;

use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_core::store::patience::last_words;
use tollgate_core::{BoxFuture, Code, Error, Result};

use crate::fault::Fault;

/// The longest wait before the first repetition; it doubles with each further one.
const BASE: Duration = Duration::from_millis(5);
/// The longest wait before any.
const LONGEST: Duration = Duration::from_millis(200);

/// For limits that no clock can count to.
const FOR_EVER: Duration = Duration::from_secs(365 * 86_400);

/// The time that is left for one operation, and how often it was repeated.
#[derive(Debug)]
pub(crate) struct Again<'a> {
    end: Instant,
    waits: u32,
    throttled: &'a Throttled,
}

/// Whether the last answer was that too much is asked of the table.
#[derive(Debug, Default)]
pub(crate) struct Throttled(AtomicBool);

impl Throttled {
    /// Runs attempts; when the time is up while they are throttled, that is the answer.
    pub(crate) fn or_throttled<T, F>(&self, attempts: F) -> impl Future<Output = Result<T>>
    where
        F: Future<Output = Result<T>> + Unpin,
    {
        last_words(attempts, || self.0.load(Relaxed).then(|| Err(Fault::throttled_until_the_end())))
    }
}

impl<'a> Again<'a> {
    pub(crate) fn within(limit: Duration, throttled: &'a Throttled) -> Self {
        let now = Instant::now();
        let end = now.checked_add(limit).unwrap_or_else(|| now + FOR_EVER);
        Self { end, waits: 0, throttled }
    }

    /// What the last answer was.
    pub(crate) fn note(&self, is_throttled: bool) {
        self.throttled.0.store(is_throttled, Relaxed);
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

    /// Waits before the next attempt; `false` when there is no time for one.
    pub(crate) async fn wait(&mut self) -> bool {
        let longest = BASE.saturating_mul(1 << self.waits.min(16)).min(LONGEST);
        self.waits = self.waits.saturating_add(1);
        let next = Instant::now() + part_of(longest);
        if next >= self.end {
            return false;
        }
        sleep_until(next).await;
        true
    }
}

/// A random part of a time, so that those who failed together do not come back together.
fn part_of(longest: Duration) -> Duration {
    // The keys of a `RandomState` are the only randomness the standard library hands out.
    let random = RandomState::new().build_hasher().finish() >> 32;
    let nanos = u128::from(random).saturating_mul(longest.as_nanos()) >> 32;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_too_long() {
        let throttled = Throttled::default();
        let again = Again::within(Duration::MAX, &throttled);
        assert!(again.end > Instant::now() + FOR_EVER / 2);
    }

    #[test]
    fn waits_vary_and_never_exceed_their_bound() {
        let waits: Vec<Duration> = (0..1_000).map(|_| part_of(LONGEST)).collect();
        let (shortest, longest) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
        assert!(*longest <= LONGEST);
        assert!(*longest > LONGEST / 2 && *shortest < LONGEST / 2, "{shortest:?} to {longest:?}");
    }
}
