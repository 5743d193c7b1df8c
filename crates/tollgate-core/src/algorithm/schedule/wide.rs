//! The schedule in full width: exact for every accepted quota.

use crate::algorithm::Write;
use crate::cost::Cost;
use crate::decision::Decision;
use crate::state::Words;
use crate::time::{MICROS_MAX, MICROS_PER_MS, Micros, Now};

/// No debt ends later: so an instant is below 2^53, with which scripts calculate, and a word in
/// memory is below 2^63 by more than what a rounding up to milliseconds adds.
const DEBT_END: Micros = 2 * MICROS_MAX - 1_000_000;

/// All lengths and instants are in 1/l microseconds, below 2^101; with any debt below 2^117.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wide {
    pub(super) p: u64,
    pub(super) l: u64,
    pub(super) burst: u64,
    pub(super) is_shaped: bool,
}

impl Wide {
    /// What a full debt takes: τ·l.
    pub(super) fn full(&self) -> u128 {
        self.units(self.burst)
    }

    /// How far TAT may go at an instant with this many units of debt beyond the ceiling.
    pub(super) fn latest(&self, at: u128, max_debt: u64) -> u128 {
        (at + self.full() + self.units(max_debt)).min(self.scaled(DEBT_END))
    }

    /// What this number of units takes.
    pub(super) fn units(&self, units: u64) -> u128 {
        u128::from(self.p) * u128::from(units)
    }

    pub(super) fn scaled(&self, micros: Micros) -> u128 {
        u128::from(micros) * u128::from(self.l)
    }

    /// Whole microseconds, rounded up.
    pub(super) fn micros_up(&self, scaled: u128) -> Micros {
        narrow(scaled.div_ceil(u128::from(self.l)))
    }

    pub(super) fn ms_up(&self, scaled: u128) -> u64 {
        narrow(scaled.div_ceil(u128::from(self.l) * u128::from(MICROS_PER_MS)))
    }

    pub(super) fn tat(&self, words: &[u64]) -> u128 {
        match words {
            [whole, fraction] => self.scaled(*whole) + u128::from(*fraction),
            _ => 0,
        }
    }

    pub(super) fn write(&self, tat: u128) -> Write {
        let l = u128::from(self.l);
        let words = Words::new(&[narrow(tat / l), narrow(tat % l)]);
        Write { words, fresh_at: self.micros_up(tat) }
    }

    /// Where the charge ended whose end, rounded up to a millisecond, is `at`.
    ///
    /// Charges that are still counted follow one another without a gap, so its end lies a whole
    /// number of units before TAT. Of several such instants in that millisecond the earliest is
    /// taken, and the start of it if there is none (the quota changed, or a part of a unit was
    /// given back since).
    pub(super) fn end_of_charge(&self, tat: u128, at: Micros) -> u128 {
        let after = self.scaled(at.saturating_sub(MICROS_PER_MS));
        if tat <= after {
            return tat;
        }
        let p = u128::from(self.p);
        let end = tat - ((tat - after).div_ceil(p) - 1) * p;
        if end <= self.scaled(at) { end } else { after }
    }
}

/// A state at the instant of a decision.
pub(super) struct View<'a> {
    quota: &'a Wide,
    /// The instant to decide at.
    pub(super) at: u128,
    /// What the clock said.
    reading: u128,
    /// Where the next charge begins: max(TAT, now).
    pub(super) start: u128,
}

impl<'a> View<'a> {
    pub(super) fn new(quota: &'a Wide, words: &[u64], now: Now) -> Self {
        let at = quota.scaled(now.effective());
        let start = quota.tat(words).max(at);
        Self { quota, at, reading: quota.scaled(now.reading()), start }
    }

    pub(super) fn grants(&self, cost: Cost) -> bool {
        cost.get() <= self.quota.burst
            && self.start + self.quota.units(cost.get()) <= self.at + self.quota.full()
    }

    pub(super) fn units_left(&self, tat: u128) -> u64 {
        let room = (self.at + self.quota.full()).saturating_sub(tat);
        narrow(room / u128::from(self.quota.p))
    }

    pub(super) fn reset_at_ms(&self) -> u64 {
        self.quota.ms_up(if self.start > self.at { self.start } else { self.reading })
    }

    pub(super) fn delay_ms(&self) -> u64 {
        if self.quota.is_shaped { self.quota.ms_up(self.start - self.reading) } else { 0 }
    }

    /// The decision for a cost that is not charged.
    pub(super) fn uncharged(&self, cost: Cost) -> Decision {
        let (limit, left) = (self.quota.burst, self.units_left(self.start));
        if cost.get() > limit {
            return Decision::never(limit, left, self.reset_at_ms());
        }
        if self.grants(cost) {
            return Decision::allowed(limit, left, self.reset_at_ms()).after(self.delay_ms());
        }
        let free_at = self.start + self.quota.units(cost.get()) - self.quota.full();
        Decision::denied(limit, left, self.reset_at_ms(), self.quota.ms_up(free_at - self.reading))
    }
}

/// Quotas are bounded so that every number that leaves the schedule fits 64 bits.
pub(super) fn narrow(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
