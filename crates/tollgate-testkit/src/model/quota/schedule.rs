//! gcra, token_bucket and leaky_bucket: one rational instant, TAT.
//!
//! T = P/L, τ = T·B, a = max(TAT, n). Allowed iff a ≤ n + τ − T·q; then TAT := a + T·q.

use tollgate_core::{Cost, Decision, Forecast, MICROS_MAX, Micros, Now, Receipt};

use crate::model::real::Real;
use crate::model::{Bound, CLOCKS_DIFFER, Mathematics};

/// No debt ends later than this.
const DEBT_END: Micros = (1 << 53) - 1_000_000;

#[derive(Clone, Debug)]
pub(super) struct Schedule {
    /// T: what one unit takes to come back.
    unit: Real,
    burst: u64,
    shapes: bool,
    /// Absent for a key that was never charged.
    tat: Option<Real>,
}

impl Schedule {
    pub(super) fn new((units, period): (u64, Micros), burst: u64, shapes: bool) -> Self {
        Self { unit: Real::ratio(period, units), burst, shapes, tat: None }
    }

    /// τ.
    fn full(&self) -> Real {
        self.unit.times(self.burst)
    }

    /// a = max(TAT or n, n).
    fn start(&self, at: &Real) -> Real {
        self.tat.as_ref().map_or_else(|| at.clone(), |tat| tat.clone().at_least(at))
    }

    /// ⌊(τ − (tat − n)) / T⌋, never negative.
    fn left(&self, tat: &Real, at: &Real) -> u64 {
        self.full().minus(&tat.minus(at)).over(&self.unit).floor()
    }

    fn delay_ms(&self, start: &Real, now: Now) -> u64 {
        if self.shapes { start.minus(&Real::whole(now.reading())).ms_up() } else { 0 }
    }

    /// Where a charge ended whose receipt names that end rounded up to a millisecond.
    ///
    /// Charges that still count follow one another without a gap: the end lies a whole number of
    /// units before TAT, in (receipt − 1 ms, receipt]. Of several such instants the earliest is
    /// taken, and the lower bound if there is none: never too much.
    fn end_of_charge(&self, tat: &Real, receipt: Micros) -> Real {
        let after = Real::whole(receipt.saturating_sub(1_000));
        if !tat.exceeds(&after) {
            return tat.clone();
        }
        let rest = tat.minus(&after).modulo(&self.unit);
        let is_whole = !rest.exceeds(&Real::whole(0));
        let end = after.plus(if is_whole { &self.unit } else { &rest });
        if end.exceeds(&Real::whole(receipt)) { after } else { end }
    }

    /// TAT − τ, as far as it is not debt: clocks differ by a minute at most.
    fn seen_exactly(&self, now: Now) -> Real {
        let Some(tat) = &self.tat else { return Real::whole(0) };
        let (seen, latest) = (tat.minus(&self.full()), now.effective() + CLOCKS_DIFFER);
        let latest = Real::whole(latest.min(MICROS_MAX - 1));
        if seen.exceeds(&latest) { latest } else { seen }
    }

    fn reset_at_ms(start: &Real, now: Now) -> u64 {
        if start.exceeds(&Real::whole(now.effective())) {
            start.ms_up()
        } else {
            Real::whole(now.reading()).ms_up()
        }
    }
}

impl Mathematics for Schedule {
    fn peek(&self, now: Now, cost: Cost) -> Decision {
        let at = Real::whole(now.effective());
        let start = self.start(&at);
        let (left, reset) = (self.left(&start, &at), Self::reset_at_ms(&start, now));
        if cost.get() > self.burst {
            return Decision::never(self.burst, left, reset);
        }
        let spent = self.unit.times(cost.get());
        let earliest = start.plus(&spent).minus(&self.full());
        if earliest.exceeds(&at) {
            let wait = earliest.minus(&Real::whole(now.reading()));
            return Decision::denied(self.burst, left, reset, wait.ms_up());
        }
        Decision::allowed(self.burst, left, reset).after(self.delay_ms(&start, now))
    }

    fn charge(&mut self, now: Now, cost: Cost) -> Decision {
        let at = Real::whole(now.effective());
        let start = self.start(&at);
        let tat = start.plus(&self.unit.times(cost.get()));
        let left = self.left(&tat, &at);
        let decision = Decision::allowed(self.burst, left, tat.ms_up());
        self.tat = Some(tat);
        decision.after(self.delay_ms(&start, now))
    }

    /// Up to the ceiling, parts of units too: TAT := min(a + T·q, n + τ), unless a lies beyond that
    /// already.
    fn count_granted(&mut self, now: Now, cost: Cost) {
        let at = Real::whole(now.effective());
        let start = self.start(&at);
        let (tat, latest) = (start.plus(&self.unit.times(cost.get())), at.plus(&self.full()));
        let tat = if tat.exceeds(&latest) { latest } else { tat };
        if tat.exceeds(&start) {
            self.tat = Some(tat);
        }
    }

    fn forecast(&self, now: Now) -> Forecast {
        let at = Real::whole(now.effective());
        let start = self.start(&at);
        let left = self.left(&start, &at);
        // One more unit is there once τ − (TAT − x) reaches T·(left + 1).
        let next = start.plus(&self.unit.times(left + 1)).minus(&self.full());
        let next = (left < self.burst).then(|| next.ms_up());
        Forecast::new(self.burst, left, next, Self::reset_at_ms(&start, now))
    }

    /// The charge holds the schedule up to its own end. What lies before now came back already; the
    /// rest of the charge, at most T·q, is given back. A unit that is given back in part counts as
    /// one.
    fn refund(&mut self, now: Now, cost: Cost, receipt: Receipt) -> u64 {
        let at = Real::whole(now.effective());
        let start = self.start(&at);
        let end = match receipt {
            Receipt::Until(end) => self.end_of_charge(&start, end),
            _ => start.clone(),
        };
        let (left, taken) = (end.minus(&at), self.unit.times(cost.get()));
        let given = if left.exceeds(&taken) { taken } else { left };
        if !given.exceeds(&Real::whole(0)) {
            return 0;
        }
        self.tat = Some(start.minus(&given));
        given.over(&self.unit).ceil()
    }

    /// The largest whole number of units with a + T·q ≤ n + τ + T·D.
    fn overdraw(&mut self, now: Now, units: Cost, max_debt: u64) -> u64 {
        let at = Real::whole(now.effective());
        let start = self.start(&at);
        let latest = at.plus(&self.full()).plus(&self.unit.times(max_debt));
        let end = Real::whole(DEBT_END);
        let latest = if latest.exceeds(&end) { end } else { latest };
        if !latest.exceeds(&start) {
            return 0;
        }
        let charged = latest.minus(&start).over(&self.unit).floor().min(units.get());
        if charged > 0 {
            self.tat = Some(start.plus(&self.unit.times(charged)));
        }
        charged
    }

    fn seen(&self, now: Now) -> Micros {
        self.seen_exactly(now).floor()
    }

    fn owed(&self, now: Now) -> u64 {
        let Some(tat) = &self.tat else { return 0 };
        let at = self.seen_exactly(now).at_least(&Real::whole(now.effective()));
        tat.minus(&at).over(&self.unit).ceil()
    }

    fn owe(&mut self, at: Micros, units: u64) {
        self.tat = Some(Real::whole(at).plus(&self.unit.times(units)));
    }

    fn is_untouched(&self) -> bool {
        self.tat.is_none()
    }

    fn set_limit(&mut self, _limit: u64) -> bool {
        false
    }

    /// B at once, and one more every T since the first.
    fn bound(&self, first: Micros, last: Micros) -> Bound {
        let refilled = Real::whole(last - first).over(&self.unit).floor();
        Bound { since: 0, most: u128::from(self.burst) + u128::from(refilled) }
    }
}
