//! `fixed_window`: L units per window of length W.
//!
//! # Mathematics
//! A window starts at a multiple of W since the epoch (`epoch`) or at the first charge after the
//! last window ended (`first_hit`). With c units counted in it, a cost q is allowed iff c + q ≤ L.
//! `remaining` = L − c; `reset_at` = start + W once anything was spent; `retry_after` = start + W −
//! n. By its nature up to 2·L units can pass around a boundary: L at the end of one window and L at
//! the start of the next. Choose another algorithm where that matters.
//!
//! # State
//! Words `[start, count]`; quota id `[tag, W, anchor, L]` with anchor 0 for epoch and 1 for
//! first_hit. Under another limit the count stays; it may then exceed the limit.
//!
//! # Debt
//! Charging beyond the ceiling counts up to L + D units, at most 2^48, in the window that counts
//! now, where D is the largest debt. They end with the window, as all of its units do.
//!
//! # Rounding
//! None but times, up to whole milliseconds.
//!
//! # Time
//! A state has seen its start: an earlier reading is decided in the window that was seen.

use super::limits::{self, PERIOD_MAX};
use super::{
    Algorithm, Debt, Description, Kind, Overdrawn, QuotaFields, Refund, Renewal, ScriptedStep,
    Step, Write,
};
use crate::charge::Receipt;
use crate::cost::Cost;
use crate::decision::{Decision, Forecast};
use crate::error::Result;
use crate::quota::Quota;
use crate::rule::Rule;
use crate::state::{QuotaId, Words};
use crate::time::{MICROS_MAX, Micros, Now, millisecond_before, to_ms_up};

/// Where windows start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Anchor {
    /// At multiples of the window since the Unix epoch, the same for every key.
    #[default]
    Epoch = 0,
    /// At the first charge of each key.
    FirstHit = 1,
}

/// L units per window.
#[derive(Clone, Debug)]
pub struct FixedWindow {
    limit: u64,
    window: Micros,
    anchor: Anchor,
}

impl FixedWindow {
    pub(super) const FIELDS: QuotaFields = QuotaFields::rate("limit").word(
        "anchor",
        &["epoch", "first_hit"],
        "where windows begin; epoch when absent",
    );

    pub(super) fn from_fields(quota: Quota, anchor: Option<u64>) -> Result<Self> {
        Self::new(quota, if anchor == Some(1) { Anchor::FirstHit } else { Anchor::Epoch })
    }

    /// `quota.limit` units per window of `quota.period`.
    ///
    /// # Errors
    /// `config_invalid` naming the field, with the nearest accepted value.
    pub fn new(quota: Quota, anchor: Anchor) -> Result<Self> {
        let limit = limits::units("limit", quota.limit)?;
        let window = limits::period("window", quota.period, 1, PERIOD_MAX)?;
        Ok(Self { limit, window, anchor })
    }

    /// Rebuilds the algorithm from the quota id stored with a state.
    pub(super) fn from_quota_id(quota_id: QuotaId) -> Option<Self> {
        let [_, window, anchor, limit] = quota_id.0;
        let anchor = match anchor {
            0 => Anchor::Epoch,
            1 => Anchor::FirstHit,
            _ => return None,
        };
        let fits = (1..=PERIOD_MAX).contains(&window) && (1..=limits::UNITS_MAX).contains(&limit);
        fits.then_some(Self { limit, window, anchor })
    }

    fn start_at(&self, at: Micros) -> Micros {
        match self.anchor {
            Anchor::Epoch => at - at % self.window,
            Anchor::FirstHit => at,
        }
    }

    fn write(&self, start: Micros, count: u64) -> Write {
        Write { words: Words::new(&[start, count]), fresh_at: start + self.window }
    }

    /// The window that counts now, and the units in it.
    fn view(&self, words: &[u64], now: Now) -> View {
        let at = now.effective();
        let (start, count) = match *words {
            [start, count] if at < start + self.window => (start, count),
            _ => (self.start_at(at), 0),
        };
        View { start, end: start + self.window, count, reading: now.reading() }
    }

    fn uncharged(&self, view: &View, cost: Cost) -> Decision {
        let left = self.limit.saturating_sub(view.count);
        let reset_at_ms = view.reset_at_ms(view.count);
        if cost.get() > self.limit {
            Decision::never(self.limit, left, reset_at_ms)
        } else if cost.get() <= left {
            Decision::allowed(self.limit, left, reset_at_ms)
        } else {
            Decision::denied(self.limit, left, reset_at_ms, to_ms_up(view.end - view.reading))
        }
    }
}

/// A state at the instant of a decision.
struct View {
    start: Micros,
    end: Micros,
    count: u64,
    reading: Micros,
}

impl View {
    fn reset_at_ms(&self, count: u64) -> u64 {
        to_ms_up(if count > 0 { self.end } else { self.reading })
    }
}

impl Algorithm for FixedWindow {
    fn name(&self) -> &str {
        Kind::FixedWindow.name()
    }

    fn quota_id(&self) -> QuotaId {
        QuotaId([Kind::FixedWindow.tag(), self.window, self.anchor as u64, self.limit])
    }

    fn ceiling(&self) -> u64 {
        self.limit
    }

    fn horizon(&self) -> Micros {
        self.window
    }

    fn describe(&self) -> Description {
        Description::new(self.limit, self.limit, self.window, Renewal::Window(self.anchor))
    }

    fn accepts(&self, words: &[u64]) -> bool {
        match words {
            [start, count] => *start < MICROS_MAX && *count <= limits::UNITS_MAX,
            other => other.is_empty(),
        }
    }

    fn step(&self, words: &[u64], now: Now, cost: Cost) -> Step {
        let view = self.view(words, now);
        let decision = self.uncharged(&view, cost);
        if !decision.is_allowed() {
            return Step { decision, write: None };
        }
        let count = view.count + cost.get();
        let decision = Decision::allowed(self.limit, self.limit - count, view.reset_at_ms(count));
        Step { decision, write: Some(self.write(view.start, count)) }
    }

    fn peek(&self, words: &[u64], now: Now, cost: Cost) -> Decision {
        self.uncharged(&self.view(words, now), cost)
    }

    fn forecast(&self, words: &[u64], now: Now) -> Forecast {
        let view = self.view(words, now);
        let next_unit_at_ms = (view.count > 0).then(|| to_ms_up(view.end));
        let left = self.limit.saturating_sub(view.count);
        Forecast::new(self.limit, left, next_unit_at_ms, view.reset_at_ms(view.count))
    }

    fn refund(&self, words: &[u64], now: Now, cost: Cost, receipt: Receipt) -> Refund {
        let view = self.view(words, now);
        let in_this_window = match receipt {
            // Several windows may end in one millisecond: only the first of them is surely meant.
            Receipt::Until(at) => {
                let (after, until) = millisecond_before(at);
                (after + 1..=until).contains(&view.end) && view.start <= after
            }
            Receipt::Newest => true,
        };
        let units = cost.get().min(view.count);
        if units == 0 || !in_this_window {
            return Refund::NOTHING;
        }
        Refund { units, write: Some(self.write(view.start, view.count - units)) }
    }

    fn overdraw(&self, words: &[u64], now: Now, cost: Cost, max_debt: u64) -> Overdrawn {
        let view = self.view(words, now);
        let units = limits::room_in_debt((self.limit, max_debt), view.count).min(cost.get());
        if units == 0 {
            return Overdrawn::NOTHING;
        }
        Overdrawn { units, write: Some(self.write(view.start, view.count + units)) }
    }

    /// All of it: it ends with the window.
    fn count_granted(&self, words: &[u64], now: Now, cost: Cost) -> Option<Write> {
        let view = self.view(words, now);
        Some(self.write(view.start, (view.count + cost.get()).min(limits::UNITS_MAX)))
    }

    fn debt(&self, words: &[u64], now: Now) -> Debt {
        let view = self.view(words, now);
        Debt { units: view.count, seen: now.effective().max(view.start) }
    }

    fn indebted(&self, debt: Debt) -> Write {
        self.write(self.start_at(debt.seen), debt.units)
    }

    fn scripted_step(&self) -> Option<ScriptedStep> {
        Some(ScriptedStep::FixedWindow)
    }

    fn script_quota(&self, out: &mut Vec<u64>) {
        out.extend([self.window, self.anchor as u64, self.limit]);
    }

    fn scaled(&self, numerator: u64, denominator: u64) -> Result<Rule> {
        let limit = limits::share(self.limit, numerator, denominator);
        Ok(Rule::new(Self { limit, ..self.clone() }))
    }
}
