//! sliding_window: units per bucket, and the estimate as a rational function of time.
//!
//! w = W/S; k = ⌊m/w⌋, e = m − k·w; F = units in buckets k−S+1..k, O = units in bucket k−S. The
//! estimate is F + O·(w−e)/w; a cost fits iff it and the estimate are within L, so the estimate may
//! be rounded up to a whole unit.

use std::collections::BTreeMap;

use tollgate_core::{Cost, Decision, Forecast, Micros, Now, Receipt};

use crate::model::real::Real;
use crate::model::{Bound, Mathematics, UNITS_MAX, millisecond_before, ms_up};

#[derive(Clone, Debug)]
pub(super) struct SlidingWindow {
    limit: u64,
    /// S.
    buckets: u64,
    /// w.
    width: Micros,
    /// The newest bucket that was written; absent for a key that was never charged.
    newest: Option<u64>,
    units: BTreeMap<u64, u64>,
}

impl SlidingWindow {
    pub(super) const fn new(limit: u64, window: Micros, buckets: u64) -> Self {
        Self { limit, buckets, width: window / buckets, newest: None, units: BTreeMap::new() }
    }

    fn decided_at(&self, now: Now) -> Micros {
        now.effective().max(self.begun())
    }

    /// F and O when `bucket` is the current one.
    fn full_and_leaving(&self, bucket: u64) -> (u64, u64) {
        let oldest = (bucket + 1).saturating_sub(self.buckets);
        let full = self.units.range(oldest..=bucket).map(|(_, units)| units).sum();
        let leaving = bucket.checked_sub(self.buckets).and_then(|left| self.units.get(&left));
        (full, leaving.copied().unwrap_or(0))
    }

    /// The beginning of the newest bucket that was written.
    fn begun(&self) -> Micros {
        self.newest.map_or(0, |bucket| bucket * self.width)
    }

    /// The estimate in whole units, rounded up.
    fn counted(&self, at: Micros) -> u64 {
        self.estimate(at).ceil()
    }

    /// F + O·(w−e)/w.
    fn estimate(&self, at: Micros) -> Real {
        let bucket = at / self.width;
        let (full, leaving) = self.full_and_leaving(bucket);
        let still_covered = (bucket + 1) * self.width - at;
        let weighted = Real::ratio(still_covered, self.width).times(leaving);
        Real::whole(full).plus(&weighted)
    }

    /// The earliest instant from `at` on at which the estimate is at most `target`.
    fn time_of(&self, at: Micros, target: u64) -> Real {
        let from = Real::whole(at);
        let mut bucket = at / self.width;
        loop {
            let (full, leaving) = self.full_and_leaving(bucket);
            if full <= target {
                // O·(w−e)/w ≤ target − F, solved for e ≥ 0; with O = 0 it holds at once.
                let begin = Real::whole(bucket * self.width);
                let excess = (full + leaving).saturating_sub(target);
                let elapsed = Real::ratio(excess, leaving).times(self.width);
                return begin.plus(&elapsed).at_least(&from);
            }
            bucket += 1;
        }
    }

    fn end_of(&self, bucket: u64) -> Micros {
        (bucket + self.buckets + 1) * self.width
    }

    /// The newest bucket with units that still count at this instant.
    fn newest_counted(&self, at: Micros) -> Option<u64> {
        let mut held = self.units.iter().rev().filter(|(_, units)| **units > 0);
        held.next().map(|(bucket, _)| *bucket).filter(|bucket| self.end_of(*bucket) > at)
    }

    fn reset_at_ms(&self, now: Now) -> u64 {
        let end = self.newest_counted(self.decided_at(now)).map(|bucket| self.end_of(bucket));
        ms_up(end.unwrap_or_else(|| now.reading()))
    }

    fn left(&self, at: Micros) -> u64 {
        self.limit.saturating_sub(self.estimate(at).ceil())
    }

    /// Writing makes the current bucket the newest; what left the window can never count again.
    fn written_at(&mut self, at: Micros) {
        let bucket = at / self.width;
        self.newest = Some(bucket);
        self.units = self.units.split_off(&bucket.saturating_sub(self.buckets));
    }
}

impl Mathematics for SlidingWindow {
    fn peek(&self, now: Now, cost: Cost) -> Decision {
        let at = self.decided_at(now);
        let (left, reset) = (self.left(at), self.reset_at_ms(now));
        if cost.get() > self.limit {
            return Decision::never(self.limit, left, reset);
        }
        let wanted = self.estimate(at).plus(&Real::whole(cost.get()));
        if !wanted.exceeds(&Real::whole(self.limit)) {
            return Decision::allowed(self.limit, left, reset);
        }
        let free = self.time_of(at, self.limit - cost.get());
        let wait = free.minus(&Real::whole(now.reading()));
        Decision::denied(self.limit, left, reset, wait.ms_up())
    }

    fn charge(&mut self, now: Now, cost: Cost) -> Decision {
        let at = self.decided_at(now);
        *self.units.entry(at / self.width).or_default() += cost.get();
        self.written_at(at);
        Decision::allowed(self.limit, self.left(at), self.reset_at_ms(now))
    }

    fn count_granted(&mut self, now: Now, cost: Cost) {
        let at = self.decided_at(now);
        let units = self.units.entry(at / self.width).or_default();
        *units = (*units + cost.get()).min(UNITS_MAX);
        self.written_at(at);
    }

    fn forecast(&self, now: Now) -> Forecast {
        let at = self.decided_at(now);
        let left = self.left(at);
        let next = self.newest_counted(at).map(|_| self.time_of(at, self.limit - left - 1).ms_up());
        Forecast::new(self.limit, left, next, self.reset_at_ms(now))
    }

    /// Units come back in the bucket they were taken in: as many as the estimate falls by. A bucket
    /// that is leaving counts only in part.
    fn refund(&mut self, now: Now, cost: Cost, receipt: Receipt) -> u64 {
        let at = self.decided_at(now);
        let current = at / self.width;
        let counted = current.saturating_sub(self.buckets)..=current;
        let bucket = match receipt {
            // The first bucket that ends in that millisecond, if it still counts.
            Receipt::Until(end) => {
                let (after, until) = millisecond_before(end);
                let mut ending = counted.filter(|bucket| self.end_of(*bucket) > after);
                ending.next().filter(|bucket| {
                    let ends = self.end_of(*bucket);
                    ends <= until && ends - self.width <= after
                })
            }
            _ => self.newest_counted(at),
        };
        let Some(bucket) = bucket else { return 0 };
        let (owed, held) = (self.counted(at), self.units.get(&bucket).copied().unwrap_or_default());
        self.units.insert(bucket, held.saturating_sub(cost.get()));
        let back = owed - self.counted(at);
        if back == 0 {
            self.units.insert(bucket, held);
        } else {
            self.written_at(at);
        }
        back
    }

    fn overdraw(&mut self, now: Now, units: Cost, max_debt: u64) -> u64 {
        let at = self.decided_at(now);
        let most = self.limit.saturating_add(max_debt).min(UNITS_MAX);
        let charged = units.get().min(most.saturating_sub(self.counted(at)));
        if charged > 0 {
            *self.units.entry(at / self.width).or_default() += charged;
            self.written_at(at);
        }
        charged
    }

    fn seen(&self, _now: Now) -> Micros {
        self.begun()
    }

    fn owed(&self, now: Now) -> u64 {
        self.counted(self.decided_at(now))
    }

    fn owe(&mut self, at: Micros, units: u64) {
        self.units = BTreeMap::from([(at / self.width, units)]);
        self.written_at(at);
    }

    fn is_untouched(&self) -> bool {
        self.newest.is_none()
    }

    fn set_limit(&mut self, limit: u64) -> bool {
        self.limit = limit;
        true
    }

    /// L in the buckets k−S+1..k.
    fn bound(&self, _first: Micros, last: Micros) -> Bound {
        let oldest = (last / self.width + 1).saturating_sub(self.buckets);
        Bound { since: oldest * self.width, most: self.limit.into() }
    }
}
