//! The counts of a sliding window as they are now: shifted to the current bucket.

use crate::algorithm::Write;
use crate::algorithm::limits::UNITS_MAX;
use crate::charge::Receipt;
use crate::state::Words;
use crate::time::{Micros, Now, millisecond_before};

/// The most counts a state can have: 60 buckets and the one that is leaving.
const COUNTS_MAX: usize = 61;

pub(super) struct View {
    /// The instant to decide at.
    pub(super) at: Micros,
    /// What the clock said.
    pub(super) reading: Micros,
    bucket: Micros,
    /// The number of the current bucket.
    newest: u64,
    /// Units per bucket, newest first; the last one counts in part. Only `len` of them are used.
    counts: [u64; COUNTS_MAX],
    len: usize,
}

impl View {
    pub(super) fn new(words: &[u64], now: Now, bucket: Micros, len: usize) -> Self {
        let (seen, kept) = words.split_first().map_or((0, &[][..]), |(seen, kept)| (*seen, kept));
        let at = now.effective().max(seen * bucket);
        let newest = at / bucket;
        let shift = usize::try_from(newest - seen).unwrap_or(usize::MAX);
        let len = len.min(COUNTS_MAX);
        let mut counts = [0; COUNTS_MAX];
        let shifted = counts.get_mut(shift.min(len)..len).unwrap_or_default();
        shifted.iter_mut().zip(kept).for_each(|(count, kept)| *count = *kept);
        Self { at, reading: now.reading(), bucket, newest, counts, len }
    }

    fn counts(&self) -> &[u64] {
        self.counts.get(..self.len).unwrap_or_default()
    }

    /// The units in full buckets, and those in the bucket that is leaving.
    fn full_and_leaving(&self) -> (u64, u64) {
        let (leaving, full) = self.counts().split_last().map_or((0, &[][..]), |(l, f)| (*l, f));
        (full.iter().sum(), leaving)
    }

    /// F + ⌈O·(w−e)/w⌉.
    pub(super) fn estimate(&self) -> u64 {
        let (full, leaving) = self.full_and_leaving();
        let gone = self.at - self.newest * self.bucket;
        full + leaving - mul_div_floor(leaving, gone, self.bucket)
    }

    /// The earliest instant at which the estimate is at most `target`, if nothing more is spent.
    /// Only for a target below the estimate.
    pub(super) fn time_of_estimate(&self, target: u64) -> Micros {
        let (mut full, mut leaving) = self.full_and_leaving();
        let mut current = self.newest;
        let mut rest = self.counts().iter().rev().skip(1);
        while full > target {
            let Some(next) = rest.next() else { break };
            current += 1;
            leaving = *next;
            full -= leaving;
        }
        // Once ⌈O·(w−e)/w⌉ ≤ target − F: the bucket must have lost O − (target − F) units.
        let to_lose = leaving - (target - full).min(leaving);
        current * self.bucket + mul_div_ceil(to_lose, self.bucket, leaving.max(1))
    }

    /// When no unit counts any more; now if none does.
    pub(super) fn fresh_at(&self) -> Micros {
        match self.counts().iter().position(|count| *count > 0) {
            Some(age) => self.end_of(age),
            None => self.reading,
        }
    }

    /// When the units of the bucket `age` buckets ago stop counting.
    fn end_of(&self, age: usize) -> Micros {
        let buckets = u64::try_from(self.len - age).unwrap_or(u64::MAX);
        (self.newest + buckets) * self.bucket
    }

    /// Adds units to the current bucket. What is granted fits, as does what is charged into debt;
    /// of what another quota has granted, no more than any quota can grant.
    pub(super) fn add(&mut self, units: u64) {
        if let Some(current) = self.counts.first_mut() {
            *current = (*current + units).min(UNITS_MAX);
        }
    }

    /// Takes up to `units` out of the bucket of the receipt.
    pub(super) fn remove(&mut self, units: u64, receipt: Receipt) {
        let age = match receipt {
            // Several buckets may end in one millisecond: only the first of them is surely meant.
            Receipt::Until(end) => {
                let (after, until) = millisecond_before(end);
                (0..self.len).find(|age| {
                    let ends = self.end_of(*age);
                    (after + 1..=until).contains(&ends) && ends <= after + self.bucket
                })
            }
            Receipt::Newest => self.counts().iter().position(|count| *count > 0),
        };
        if let Some(count) = age.and_then(|age| self.counts.get_mut(age)) {
            *count = count.saturating_sub(units);
        }
    }

    pub(super) fn write(&self) -> Write {
        let mut words = [0; COUNTS_MAX + 1];
        if let Some((newest, counts)) = words.split_first_mut() {
            *newest = self.newest;
            counts.copy_from_slice(&self.counts);
        }
        let words = Words::new(words.get(..=self.len).unwrap_or_default());
        Write { words, fresh_at: self.fresh_at().max(self.newest * self.bucket) }
    }
}

fn mul_div_floor(a: u64, b: u64, divisor: u64) -> u64 {
    narrow(u128::from(a) * u128::from(b) / u128::from(divisor))
}

fn mul_div_ceil(a: u64, b: u64, divisor: u64) -> u64 {
    narrow((u128::from(a) * u128::from(b)).div_ceil(u128::from(divisor)))
}

/// Quotas are bounded so that no quotient leaves 64 bits.
fn narrow(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
