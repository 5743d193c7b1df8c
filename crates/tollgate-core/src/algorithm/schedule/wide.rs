//! The schedule in full width: exact for every accepted quota.

use crate::algorithm::{Debt, Refund, Step, Write};
use crate::charge::Receipt;
use crate::cost::Cost;
use crate::decision::{Decision, Forecast};
use crate::state::Words;
use crate::time::{MICROS_MAX, MICROS_PER_MS, Micros, Now};

/// All lengths and instants are in 1/l microseconds, below 2^101.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wide {
    pub(super) p: u64,
    pub(super) l: u64,
    pub(super) burst: u64,
    pub(super) is_shaped: bool,
}

impl Wide {
    /// What a full debt takes: τ·l.
    fn full(&self) -> u128 {
        self.units(self.burst)
    }

    /// What this number of units takes.
    fn units(&self, units: u64) -> u128 {
        u128::from(self.p) * u128::from(units)
    }

    fn scaled(&self, micros: Micros) -> u128 {
        u128::from(micros) * u128::from(self.l)
    }

    /// Whole microseconds, rounded up.
    fn micros_up(&self, scaled: u128) -> Micros {
        narrow(scaled.div_ceil(u128::from(self.l)))
    }

    fn ms_up(&self, scaled: u128) -> u64 {
        narrow(scaled.div_ceil(u128::from(self.l) * u128::from(MICROS_PER_MS)))
    }

    fn tat(&self, words: &[u64]) -> u128 {
        match words {
            [whole, fraction] => self.scaled(*whole) + u128::from(*fraction),
            _ => 0,
        }
    }

    fn write(&self, tat: u128) -> Write {
        let l = u128::from(self.l);
        let words = Words::new(&[narrow(tat / l), narrow(tat % l)]);
        Write { words, fresh_at: self.micros_up(tat) }
    }

    pub(super) fn horizon(&self) -> Micros {
        self.micros_up(self.full())
    }

    pub(super) fn accepts(&self, words: &[u64]) -> bool {
        match words {
            [whole, fraction] => *whole < 2 * MICROS_MAX && *fraction < self.l,
            other => other.is_empty(),
        }
    }

    pub(super) fn step(&self, words: &[u64], now: Now, cost: Cost) -> Step {
        let view = View::new(self, words, now);
        if !view.grants(cost) {
            return Step { decision: view.uncharged(cost), write: None };
        }
        let next = view.start + self.units(cost.get());
        let decision = Decision::allowed(self.burst, view.units_left(next), self.ms_up(next))
            .after(view.delay_ms());
        Step { decision, write: Some(self.write(next)) }
    }

    pub(super) fn peek(&self, words: &[u64], now: Now, cost: Cost) -> Decision {
        View::new(self, words, now).uncharged(cost)
    }

    pub(super) fn forecast(&self, words: &[u64], now: Now) -> Forecast {
        let view = View::new(self, words, now);
        let spendable = view.units_left(view.start);
        // One more unit is there once the debt has room for spendable + 1.
        let next_unit_at_ms = (spendable < self.burst)
            .then(|| self.ms_up(view.start + self.units(spendable + 1) - self.full()));
        Forecast::new(self.burst, spendable, next_unit_at_ms, view.reset_at_ms())
    }

    pub(super) fn refund(&self, words: &[u64], now: Now, cost: Cost, receipt: Receipt) -> Refund {
        let view = View::new(self, words, now);
        // The charge holds the schedule up to its own end; what lies before now came back already.
        let end = match receipt {
            Receipt::Until(at) => self.end_of_charge(view.start, at),
            Receipt::Newest => view.start,
        };
        let counted = end.saturating_sub(view.at) / u128::from(self.p);
        let units = cost.get().min(narrow(counted));
        if units == 0 {
            return Refund::NOTHING;
        }
        Refund { units, write: Some(self.write(view.start - self.units(units))) }
    }

    /// Where the charge ended whose end, rounded up to a millisecond, is `at`.
    ///
    /// Charges that are still counted follow one another without a gap, so its end lies a whole
    /// number of units before TAT. Of several such instants in that millisecond the earliest is
    /// taken, and the start of it if there is none (the quota changed): never too much.
    fn end_of_charge(&self, tat: u128, at: Micros) -> u128 {
        let after = self.scaled(at.saturating_sub(MICROS_PER_MS));
        if tat <= after {
            return tat;
        }
        let p = u128::from(self.p);
        let end = tat - ((tat - after).div_ceil(p) - 1) * p;
        if end <= self.scaled(at) { end } else { after }
    }

    pub(super) fn debt(&self, words: &[u64], now: Now) -> Debt {
        let tat = self.tat(words);
        let seen_by_state = narrow(tat.saturating_sub(self.full()) / u128::from(self.l));
        let seen = now.effective().max(seen_by_state);
        let owed = tat.saturating_sub(self.scaled(seen)).div_ceil(u128::from(self.p));
        Debt { units: narrow(owed).min(self.burst), seen }
    }

    /// What a cost takes and the room it leaves, each as whole microseconds and a fraction: all the
    /// products that the script would need. There is no room below a cost that never fits.
    pub(super) fn script_cost(&self, cost: Cost, out: &mut Vec<i64>) {
        let l = u128::from(self.l);
        let signed = |number: u128| i64::try_from(number).unwrap_or(i64::MAX);
        let takes = self.units(cost.get());
        let room = self.burst.checked_sub(cost.get()).map(|units| self.units(units));
        let (whole, fraction) = room.map_or((-1, 0), |room| (signed(room / l), signed(room % l)));
        // What is never granted is never added either: it need not be exact.
        let takes = if room.is_some() { takes } else { 0 };
        out.extend([signed(takes / l), signed(takes % l), whole, fraction]);
    }

    pub(super) fn indebted(&self, debt: Debt) -> Write {
        self.write(self.scaled(debt.seen) + self.units(debt.units))
    }

    pub(super) fn indebted_until(&self, until: Micros, at: Micros) -> Write {
        let full = self.scaled(at) + self.full();
        self.write(self.scaled(until).clamp(self.scaled(at), full))
    }
}

/// A state at the instant of a decision.
struct View<'a> {
    quota: &'a Wide,
    /// The instant to decide at.
    at: u128,
    /// What the clock said.
    reading: u128,
    /// Where the next charge begins: max(TAT, now).
    start: u128,
}

impl<'a> View<'a> {
    fn new(quota: &'a Wide, words: &[u64], now: Now) -> Self {
        let at = quota.scaled(now.effective());
        let start = quota.tat(words).max(at);
        Self { quota, at, reading: quota.scaled(now.reading()), start }
    }

    fn grants(&self, cost: Cost) -> bool {
        cost.get() <= self.quota.burst
            && self.start + self.quota.units(cost.get()) <= self.at + self.quota.full()
    }

    fn units_left(&self, tat: u128) -> u64 {
        let room = (self.at + self.quota.full()).saturating_sub(tat);
        narrow(room / u128::from(self.quota.p))
    }

    fn reset_at_ms(&self) -> u64 {
        self.quota.ms_up(if self.start > self.at { self.start } else { self.reading })
    }

    fn delay_ms(&self) -> u64 {
        if self.quota.is_shaped { self.quota.ms_up(self.start - self.reading) } else { 0 }
    }

    /// The decision for a cost that is not charged.
    fn uncharged(&self, cost: Cost) -> Decision {
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
fn narrow(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
