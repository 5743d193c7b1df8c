//! `sliding_log`: at most L units in any window of length W, exactly.
//!
//! # Mathematics
//! The log keeps (time, units) of every admitted charge. With c units in (n − W, n], a cost q is
//! allowed iff c + q ≤ L. `remaining` = L − c; `reset_at` = newest entry + W; `retry_after` = when
//! enough of the oldest units have left.
//!
//! # State Words `[time, units, time, units, …]`, oldest first, times strictly increasing: charges
//! at one instant merge, and a cost of 10,000 is one entry. Quota id `[tag, W, 0, L]`. Under
//! another limit the entries stay; they may then exceed the limit. A state has at most L entries,
//! or 64 if another quota has granted more or the key is in debt; stores that swap whole states
//! accept L up to 1,000.
//!
//! # Debt
//! Charging beyond the ceiling counts up to L + D units, at most 2^48, where D is the largest debt:
//! one more entry. A log of L entries, and of 64, grows no further: the units of its newest entry
//! are moved to the new one, and leave later, together.
//!
//! # Rounding
//! None but times, up to whole milliseconds.
//!
//! # Time
//! A state has seen its newest entry: an earlier reading is decided at that instant.

use super::limits;
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

/// The longest window.
const WINDOW_MAX: Micros = 1 << 50;

/// How many entries a log may have before charges that another quota has granted share one, and
/// those beyond the ceiling if its limit is lower.
const SHARED_ENTRIES: usize = 64;

/// At most L units in any window, exactly.
#[derive(Clone, Debug)]
pub struct SlidingLog {
    limit: u64,
    window: Micros,
}

impl SlidingLog {
    pub(super) const FIELDS: QuotaFields = QuotaFields::rate("limit");

    pub(super) fn from_fields(quota: Quota, _no_option: Option<u64>) -> Result<Self> {
        Self::new(quota)
    }

    /// At most `quota.limit` units in any window of `quota.period`.
    ///
    /// # Errors
    /// `config_invalid` naming the field, with the nearest accepted value.
    pub fn new(quota: Quota) -> Result<Self> {
        let limit = limits::units("limit", quota.limit)?;
        let window = limits::period("window", quota.period, 1, WINDOW_MAX)?;
        Ok(Self { limit, window })
    }

    /// Rebuilds the algorithm from the quota id stored with a state.
    pub(super) fn from_quota_id(quota_id: QuotaId) -> Option<Self> {
        let [_, window, zero, limit] = quota_id.0;
        let fits = zero == 0
            && (1..=WINDOW_MAX).contains(&window)
            && (1..=limits::UNITS_MAX).contains(&limit);
        fits.then_some(Self { limit, window })
    }

    fn view<'a>(&self, words: &'a [u64], now: Now) -> View<'a> {
        let entries = words.as_chunks::<2>().0;
        let newest = entries.last().map_or(0, |[time, _]| *time);
        let at = now.effective().max(newest);
        // Live: time > at − W.
        let gone = entries.partition_point(|[time, _]| time + self.window <= at);
        let live = entries.get(gone..).unwrap_or_default();
        let count = live.iter().map(|[_, units]| units).sum();
        View { at, reading: now.reading(), live, count, window: self.window }
    }

    fn uncharged(&self, view: &View<'_>, cost: Cost) -> Decision {
        let left = self.limit.saturating_sub(view.count);
        let reset_at_ms = to_ms_up(view.fresh_at());
        if cost.get() > self.limit {
            Decision::never(self.limit, left, reset_at_ms)
        } else if cost.get() <= left {
            Decision::allowed(self.limit, left, reset_at_ms)
        } else {
            let wait = view.free_at(view.count + cost.get() - self.limit) - view.reading;
            Decision::denied(self.limit, left, reset_at_ms, to_ms_up(wait))
        }
    }
}

/// The live part of a state.
struct View<'a> {
    at: Micros,
    reading: Micros,
    live: &'a [[u64; 2]],
    count: u64,
    window: Micros,
}

impl View<'_> {
    fn fresh_at(&self) -> Micros {
        let newest = self.live.iter().rfind(|[_, units]| *units > 0);
        newest.map_or(self.reading, |[time, _]| time + self.window)
    }

    /// When `units` of the oldest will have left.
    fn free_at(&self, units: u64) -> Micros {
        let mut gone = 0;
        let frees = |[_, held]: &&[u64; 2]| {
            gone += held;
            gone >= units
        };
        self.live.iter().find(frees).map_or(self.reading, |[time, _]| time + self.window)
    }

    /// The live entries with one more charge at the end.
    fn with(&self, units: u64) -> Write {
        let mut words = Vec::with_capacity(2 * self.live.len() + 2);
        words.extend(self.live.iter().filter(|[_, units]| *units > 0).flatten());
        match words.last_chunk_mut::<2>() {
            Some([time, held]) if *time == self.at => *held += units,
            _ => words.extend([self.at, units]),
        }
        Write { words: words.into(), fresh_at: self.at + self.window }
    }

    /// The same, but a charge that would be one entry too many joins the newest one, at its own
    /// time.
    fn with_at_most(mut self, entries: usize, units: u64) -> Write {
        let holds = |[_, units]: &[u64; 2]| *units > 0;
        let held = self.live.iter().copied().filter(holds).count();
        let newest = self.live.iter().rposition(holds).filter(|_| held >= entries);
        match newest.and_then(|newest| self.live.split_at_checked(newest)) {
            Some((older, [[_, joined], ..])) => {
                self.live = older;
                self.with(joined + units)
            }
            _ => self.with(units),
        }
    }

    /// These entries, the live ones without the `units` that were taken out of them.
    fn after_refund(&self, mut entries: Vec<[u64; 2]>, units: u64) -> Refund {
        if units == 0 {
            return Refund::NOTHING;
        }
        entries.retain(|[_, held]| *held > 0);
        // The time that was seen is not forgotten with the newest entry: an empty one keeps it.
        let newest = entries.last().map(|[time, _]| *time);
        let seen = self.live.last().filter(|_| newest.is_some()).map_or(self.at, |[time, _]| *time);
        if newest != Some(seen) {
            entries.push([seen, 0]);
        }
        let words = entries.into_flattened().into();
        Refund { units, write: Some(Write { words, fresh_at: seen + self.window }) }
    }
}

impl Algorithm for SlidingLog {
    fn name(&self) -> &str {
        Kind::SlidingLog.name()
    }

    fn quota_id(&self) -> QuotaId {
        QuotaId([Kind::SlidingLog.tag(), self.window, 0, self.limit])
    }

    fn ceiling(&self) -> u64 {
        self.limit
    }

    fn horizon(&self) -> Micros {
        self.window
    }

    fn describe(&self) -> Description {
        Description::new(self.limit, self.limit, self.window, Renewal::Rolling)
    }

    fn accepts(&self, words: &[u64]) -> bool {
        let (entries, rest) = words.as_chunks::<2>();
        let mut total: u64 = 0;
        let sound = |[time, units]: &[u64; 2]| {
            total = total.saturating_add(*units);
            *time < MICROS_MAX && total <= limits::UNITS_MAX
        };
        rest.is_empty() && entries.iter().all(sound) && entries.is_sorted_by(|a, b| a[0] < b[0])
    }

    fn step(&self, words: &[u64], now: Now, cost: Cost) -> Step {
        let view = self.view(words, now);
        let decision = self.uncharged(&view, cost);
        if !decision.is_allowed() {
            return Step { decision, write: None };
        }
        let write = view.with(cost.get());
        let left = decision.remaining - cost.get();
        let decision = Decision::allowed(self.limit, left, to_ms_up(write.fresh_at));
        Step { decision, write: Some(write) }
    }

    fn peek(&self, words: &[u64], now: Now, cost: Cost) -> Decision {
        self.uncharged(&self.view(words, now), cost)
    }

    fn forecast(&self, words: &[u64], now: Now) -> Forecast {
        let view = self.view(words, now);
        let left = self.limit.saturating_sub(view.count);
        let next_unit = view.count.saturating_sub(self.limit) + 1;
        let next_unit_at_ms = (left < self.limit).then(|| to_ms_up(view.free_at(next_unit)));
        Forecast::new(self.limit, left, next_unit_at_ms, to_ms_up(view.fresh_at()))
    }

    fn refund(&self, words: &[u64], now: Now, cost: Cost, receipt: Receipt) -> Refund {
        let view = self.view(words, now);
        let mut entries = view.live.to_vec();
        let units = match receipt {
            Receipt::Newest => take(entries.iter_mut().rev(), cost.get()),
            // The receipt names a millisecond. Of the entries that leave in it the oldest give way,
            // and none once it has begun: the one that is meant may have left.
            Receipt::Until(end) => {
                let (after, until) = millisecond_before(end);
                let leaves = |time: Micros| (after + 1..=until).contains(&(time + self.window));
                let meant = entries.iter_mut().filter(|[time, _]| leaves(*time));
                if view.at <= after { take(meant, cost.get()) } else { 0 }
            }
        };
        view.after_refund(entries, units)
    }

    fn overdraw(&self, words: &[u64], now: Now, cost: Cost, max_debt: u64) -> Overdrawn {
        let view = self.view(words, now);
        let units = limits::room_in_debt((self.limit, max_debt), view.count).min(cost.get());
        if units == 0 {
            return Overdrawn::NOTHING;
        }
        let entries = usize::try_from(self.limit).unwrap_or(usize::MAX).max(SHARED_ENTRIES);
        Overdrawn { units, write: Some(view.with_at_most(entries, units)) }
    }

    /// All of it. Beyond some entries it joins the newest one, so that a quota that grants more
    /// cannot make the log longer than its own charges do: the units of that one leave later,
    /// together.
    fn count_granted(&self, words: &[u64], now: Now, cost: Cost) -> Option<Write> {
        let view = self.view(words, now);
        let units = cost.get().min(limits::UNITS_MAX - view.count);
        Some(view.with_at_most(SHARED_ENTRIES, units))
    }

    fn debt(&self, words: &[u64], now: Now) -> Debt {
        let view = self.view(words, now);
        Debt { units: view.count, seen: view.at }
    }

    fn indebted(&self, debt: Debt) -> Write {
        Write { words: Words::new(&[debt.seen, debt.units]), fresh_at: debt.seen + self.window }
    }

    /// For what is allowed, only the total and the newest time matter: not each entry.
    fn evidence(&self, words: &[u64], now: Now) -> Words {
        if words.is_empty() {
            return Words::new(words);
        }
        let view = self.view(words, now);
        Words::new(&[view.at, view.count])
    }

    fn scripted_step(&self) -> Option<ScriptedStep> {
        Some(ScriptedStep::SlidingLog)
    }

    fn script_quota(&self, out: &mut Vec<u64>) {
        out.extend([self.window, self.limit]);
    }

    fn scaled(&self, numerator: u64, denominator: u64) -> Result<Rule> {
        let limit = limits::share(self.limit, numerator, denominator);
        Ok(Rule::new(Self { limit, window: self.window }))
    }
}

/// Takes up to `units` out of the entries in this order; how many.
fn take<'e>(entries: impl Iterator<Item = &'e mut [u64; 2]>, units: u64) -> u64 {
    let mut left = units;
    for [_, held] in entries {
        let taken = left.min(*held);
        *held -= taken;
        left -= taken;
    }
    units - left
}
