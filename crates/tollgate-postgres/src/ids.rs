//! How many request ids are remembered, so that there can be a bound.
//!
//! Counting is expensive and exactness is not needed: each process adds what it writes to what it
//! counted last, and counts anew after every sweep, and when the bound seems to be reached, then at most
//! once per second. Ids that others write are seen at the next count.

use core::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{Code, Error, Micros};

const SECOND: Micros = 1_000_000;

/// The request ids of one set of tables, as this process knows them.
#[derive(Debug)]
pub(crate) struct Ids {
    max: u64,
    known: AtomicU64,
    /// When they were counted, and no second count is needed yet.
    counted_at: AtomicU64,
}

impl Ids {
    pub(crate) const fn new(max: u64) -> Self {
        // Before anything was counted the bound seems to be reached.
        Self { max, known: AtomicU64::new(u64::MAX), counted_at: AtomicU64::new(0) }
    }

    pub(crate) const fn max(&self) -> u64 {
        self.max
    }

    /// How many more there is room for.
    pub(crate) fn room(&self) -> u64 {
        self.max.saturating_sub(self.known.load(Ordering::Relaxed))
    }

    /// Whether it is worth while to count for `wanted` more at this instant.
    pub(crate) fn needs_count(&self, wanted: u64, now: Micros) -> bool {
        let is_stale = now.abs_diff(self.counted_at.load(Ordering::Relaxed)) >= SECOND;
        wanted > self.room() && is_stale
    }

    pub(crate) fn counted(&self, count: u64, now: Micros) {
        self.known.store(count, Ordering::Relaxed);
        self.counted_at.store(now, Ordering::Relaxed);
    }

    pub(crate) fn added(&self, count: u64) {
        let add = |known: u64| Some(known.saturating_add(count));
        // The closure never declines.
        let _ = self.known.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

pub(crate) fn full() -> Error {
    Error::new(Code::QueueFull, "too many request ids are remembered; try again when some expired")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_wanted_when_the_bound_seems_reached_and_not_twice_a_second() {
        let ids = Ids::new(10);
        assert!(ids.needs_count(1, 5 * SECOND), "nothing was counted yet");
        ids.counted(8, 5 * SECOND);
        assert!(!ids.needs_count(2, 99 * SECOND), "there is room");
        ids.added(2);
        assert_eq!(ids.room(), 0);
        assert!(!ids.needs_count(1, 6 * SECOND - 1), "it was counted just now");
        assert!(ids.needs_count(1, 6 * SECOND));
    }
}
