//! An estimate of how many request ids are stored, so that their number can be bounded.
//!
//! Counting rows is expensive and the bound need not be exact. A process adds what it writes to its
//! last count. It counts again after every sweep, and when the bound seems to be reached, then at
//! most once per second. It sees the ids of other processes at the next count.

use core::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::Micros;

const SECOND: Micros = 1_000_000;

/// The number of request ids in one set of tables, as this process estimates it.
#[derive(Debug)]
pub(crate) struct RequestIdCount {
    max: u64,
    estimate: AtomicU64,
    /// The instant of the last count.
    counted_at: AtomicU64,
}

impl RequestIdCount {
    pub(crate) const fn new(max: u64) -> Self {
        // The first admission with a request id has to count.
        Self { max, estimate: AtomicU64::new(u64::MAX), counted_at: AtomicU64::new(0) }
    }

    pub(crate) const fn max(&self) -> u64 {
        self.max
    }

    /// Whether there is a bound.
    pub(crate) const fn is_bounded(&self) -> bool {
        self.max < u64::MAX
    }

    /// How many may be added.
    pub(crate) fn room(&self) -> usize {
        if !self.is_bounded() {
            return usize::MAX;
        }
        let room = self.max.saturating_sub(self.estimate.load(Ordering::Relaxed));
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// Whether to count before `wanted` more are added at this instant.
    pub(crate) fn needs_count(&self, wanted: usize, now: Micros) -> bool {
        let is_stale = now.abs_diff(self.counted_at.load(Ordering::Relaxed)) >= SECOND;
        wanted > self.room() && is_stale
    }

    pub(crate) fn set(&self, count: u64, now: Micros) {
        self.estimate.store(count, Ordering::Relaxed);
        self.counted_at.store(now, Ordering::Relaxed);
    }

    /// Counts ids that are about to be deleted no more.
    pub(crate) fn subtract(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let rest = |estimate: u64| Some(estimate.saturating_sub(count));
        // The closure always returns a value.
        let _ = self.estimate.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
    }

    pub(crate) fn add(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let sum = |estimate: u64| Some(estimate.saturating_add(count));
        // The closure always returns a value.
        let _ = self.estimate.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_needed_at_the_bound_and_at_most_once_per_second() {
        let ids = RequestIdCount::new(10);
        assert!(ids.needs_count(1, 5 * SECOND), "nothing was counted yet");
        ids.set(8, 5 * SECOND);
        assert!(!ids.needs_count(2, 99 * SECOND), "there is room");
        ids.add(2);
        assert_eq!(ids.room(), 0);
        assert!(!ids.needs_count(1, 6 * SECOND - 1), "it was counted within the last second");
        assert!(ids.needs_count(1, 6 * SECOND));
        ids.subtract(4);
        assert_eq!(ids.room(), 4);
        assert!(!RequestIdCount::new(u64::MAX).needs_count(1, 5 * SECOND), "there is no bound");
    }
}
