//! Which events are recorded: all of them while there are few, else a random share.
//!
//! An event of `units` is recorded with the probability `units / interval`, and then as `interval`
//! units; one of more units is always recorded, as it is. So the recorded total of a key is right
//! on average, with a standard deviation of at most `√(interval × total)`; with an interval of one
//! it is exact.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// About how many events per second are recorded at most. Recording one takes about a microsecond.
const RECORDED_MAX: u64 = 1_024;

/// Chooses the events of one kind that are recorded.
#[derive(Debug)]
pub(super) struct Sampler {
    interval: AtomicU64,
    /// Those recorded since the last second, or since the interval changed.
    recorded: AtomicU64,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { interval: AtomicU64::new(1), recorded: AtomicU64::new(0) }
    }
}

impl Sampler {
    /// As how many units an event is recorded, if it is.
    pub(super) fn recorded_units(&self, units: u64) -> Option<u64> {
        let interval = self.interval.load(Relaxed);
        if units < interval && random() % interval >= units {
            return None;
        }
        if self.recorded.fetch_add(1, Relaxed) >= RECORDED_MAX {
            // Two threads may both double it: a second later it is right again.
            self.recorded.store(RECORDED_MAX / 2, Relaxed);
            self.interval.store(interval.saturating_mul(2), Relaxed);
        }
        Some(units.max(interval))
    }

    /// A second has passed.
    pub(super) fn second_passed(&self) {
        if self.recorded.swap(0, Relaxed) < RECORDED_MAX / 4 {
            let interval = self.interval.load(Relaxed);
            self.interval.store((interval / 2).max(1), Relaxed);
        }
    }

    /// One event of one unit in this many is recorded.
    pub(super) fn interval(&self) -> u64 {
        self.interval.load(Relaxed)
    }
}

/// A number that is good enough for sampling: xorshift64*, seeded per thread.
fn random() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0_u8) | 1);
    }
    STATE.with(|state| {
        let mut next = state.get();
        next ^= next >> 12;
        next ^= next << 25;
        next ^= next >> 27;
        state.set(next);
        next.wrapping_mul(0x2545_F491_4F6C_DD1D)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_events_are_all_recorded_as_they_are() {
        let sampler = Sampler::default();
        let recorded: Option<Vec<u64>> =
            (1..1_000).map(|units| sampler.recorded_units(units)).collect();
        assert!(recorded.unwrap().into_iter().eq(1..1_000));
        assert_eq!(sampler.interval(), 1);
    }

    #[test]
    fn of_many_events_a_share_is_recorded_and_the_total_is_near() {
        let sampler = Sampler::default();
        let mut recorded = (0_u64, 0_u64);
        let (mut total, mut variance) = (0_u64, 0_u64);
        for seconds in 0..20 {
            for event in 0..200_000 {
                let units = 1 + event % 7 * (event % 11);
                (total, variance) = (total + units, variance + units * sampler.interval());
                if let Some(units) = sampler.recorded_units(units) {
                    recorded = (recorded.0 + 1, recorded.1 + units);
                }
            }
            sampler.second_passed();
            assert!(sampler.interval() > 1, "second {seconds}");
        }
        // Doubling the interval costs half of `RECORDED_MAX` each time.
        assert!(recorded.0 < 20 * 4 * RECORDED_MAX, "{recorded:?}");
        let away = recorded.1.abs_diff(total);
        assert!(away <= 6 * variance.isqrt(), "{recorded:?} of {total}, variance {variance}");
        for _ in 0..64 {
            sampler.second_passed();
        }
        assert_eq!(sampler.interval(), 1);
    }
}
