//! fixed_window: the start of the window that was seen, and the units in it.

use tollgate_core::algorithm::Anchor;
use tollgate_core::{Cost, Decision, Forecast, Micros, Now, Receipt};

use crate::model::{Bound, Mathematics, UNITS_MAX, millisecond_before, ms_up};

#[derive(Clone, Debug)]
pub(super) struct FixedWindow {
    limit: u64,
    window: Micros,
    anchor: Anchor,
    /// (start, units); absent for a key that was never charged.
    seen: Option<(Micros, u64)>,
}

impl FixedWindow {
    pub(super) const fn new(limit: u64, window: Micros, anchor: Anchor) -> Self {
        Self { limit, window, anchor, seen: None }
    }

    /// The window that holds the instant, if no earlier one is still open.
    const fn opening_at(&self, at: Micros) -> Micros {
        match self.anchor {
            Anchor::Epoch => at / self.window * self.window,
            Anchor::FirstHit => at,
        }
    }

    /// The window that counts now: one that was seen lasts until its end, also for a clock that
    /// reads a time before its start.
    fn current(&self, now: Now) -> (Micros, u64) {
        let at = now.effective();
        match self.seen {
            Some((start, units)) if at < start + self.window => (start, units),
            _ => (self.opening_at(at), 0),
        }
    }

    const fn reset_at_ms(&self, (start, units): (Micros, u64), now: Now) -> u64 {
        if units > 0 { ms_up(start + self.window) } else { ms_up(now.reading()) }
    }
}

impl Mathematics for FixedWindow {
    fn peek(&self, now: Now, cost: Cost) -> Decision {
        let (start, units) = self.current(now);
        let left = self.limit.saturating_sub(units);
        let reset = self.reset_at_ms((start, units), now);
        if cost.get() > self.limit {
            Decision::never(self.limit, left, reset)
        } else if units + cost.get() <= self.limit {
            Decision::allowed(self.limit, left, reset)
        } else {
            let wait = start + self.window - now.reading();
            Decision::denied(self.limit, left, reset, ms_up(wait))
        }
    }

    fn charge(&mut self, now: Now, cost: Cost) -> Decision {
        let (start, units) = self.current(now);
        let after = (start, units + cost.get());
        self.seen = Some(after);
        Decision::allowed(self.limit, self.limit - after.1, self.reset_at_ms(after, now))
    }

    fn count_granted(&mut self, now: Now, cost: Cost) {
        let (start, units) = self.current(now);
        self.seen = Some((start, (units + cost.get()).min(UNITS_MAX)));
    }

    fn forecast(&self, now: Now) -> Forecast {
        let (start, units) = self.current(now);
        let next = (units > 0).then(|| ms_up(start + self.window));
        let full = self.reset_at_ms((start, units), now);
        Forecast::new(self.limit, self.limit.saturating_sub(units), next, full)
    }

    /// Units come back only in the window they were taken in.
    fn refund(&mut self, now: Now, cost: Cost, receipt: Receipt) -> u64 {
        let (start, units) = self.current(now);
        let of_this_window = match receipt {
            // This window ends in that millisecond, and no earlier one does.
            Receipt::Until(end) => {
                let (after, until) = millisecond_before(end);
                start <= after && (after + 1..=until).contains(&(start + self.window))
            }
            _ => true,
        };
        let back = if of_this_window { cost.get().min(units) } else { 0 };
        if back > 0 {
            self.seen = Some((start, units - back));
        }
        back
    }

    fn overdraw(&mut self, now: Now, units: Cost, max_debt: u64) -> u64 {
        let (start, counted) = self.current(now);
        let most = self.limit.saturating_add(max_debt).min(UNITS_MAX);
        let charged = units.get().min(most.saturating_sub(counted));
        if charged > 0 {
            self.seen = Some((start, counted + charged));
        }
        charged
    }

    fn seen(&self, _now: Now) -> Micros {
        self.seen.map_or(0, |(start, _)| start)
    }

    fn owed(&self, now: Now) -> u64 {
        self.current(now).1
    }

    fn owe(&mut self, at: Micros, units: u64) {
        self.seen = Some((self.opening_at(at), units));
    }

    fn is_untouched(&self) -> bool {
        self.seen.is_none()
    }

    fn set_limit(&mut self, limit: u64) -> bool {
        self.limit = limit;
        true
    }

    /// L in each window that was begun.
    fn bound(&self, first: Micros, last: Micros) -> Bound {
        let windows = match self.anchor {
            Anchor::Epoch => last / self.window - first / self.window,
            Anchor::FirstHit => (last - first) / self.window,
        };
        Bound { since: 0, most: u128::from(self.limit) * (u128::from(windows) + 1) }
    }
}
