//! `sliding_window`: L units per window of length W, estimated over S buckets and evaluated
//! exactly.
//!
//! # Mathematics
//! Time is cut into buckets of w = W/S. With k = ⌊n/w⌋ and e = n − k·w, let F be the units in the S
//! newest buckets k−S+1..k and O those in bucket k−S, which the window still covers for (w − e)/w
//! of its length. A cost q is allowed iff F + ⌈O·(w−e)/w⌉ + q ≤ L. With S = 1 this is the classic
//! two-counter estimate. At most L units pass in any W − W/S, and fewer than 2·L in any W.
//! `remaining` = L − F − ⌈O·(w−e)/w⌉; `reset_at` = when the newest units leave the estimate.
//!
//! # State
//! Words `[t, c_t, c_{t−1}, …, c_{t−S}]`: the newest bucket's number and S + 1 counts. Quota id
//! `[tag, W, S, L]`. Under another limit the counts stay; they may then exceed the limit.
//!
//! # Debt
//! Charging beyond the ceiling counts up to L + D units in the estimate, at most 2^48, where D is
//! the largest debt. They are units of the newest bucket, and leave with it.
//!
//! # Rounding
//! The weighted share of the oldest bucket is rounded up: towards denying. Since the other terms
//! are whole, that is exactly the comparison with the unrounded estimate. Times are rounded up to
//! whole milliseconds.
//!
//! # Time
//! A state has seen the start of its newest bucket: an earlier reading is decided there.

mod view;

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
use crate::state::QuotaId;
use crate::time::{MICROS_MAX, Micros, Now, to_ms_up};

use view::View;

/// The longest window.
const WINDOW_MAX: Micros = 1 << 50;
/// The longest bucket: beyond it a script could not weigh one exactly.
const BUCKET_MAX: Micros = 1 << 46;
/// The most buckets.
const BUCKETS_MAX: u64 = 60;

/// L units per sliding window, from counts per bucket.
#[derive(Clone, Debug)]
pub struct SlidingWindow {
    limit: u64,
    /// The length of a bucket.
    bucket: Micros,
    buckets: u64,
}

impl SlidingWindow {
    pub(super) const FIELDS: QuotaFields =
        QuotaFields::rate("limit").whole("buckets", 1, "parts of the window; 1 when absent");

    pub(super) fn from_fields(quota: Quota, buckets: Option<u64>) -> Result<Self> {
        Self::with_buckets(quota, buckets.unwrap_or(1))
    }

    /// `quota.limit` units per sliding `quota.period`: the classic estimate from two counters.
    ///
    /// # Errors
    /// `config_invalid` naming the field, with the nearest accepted value.
    pub fn new(quota: Quota) -> Result<Self> {
        Self::with_buckets(quota, 1)
    }

    /// The same with `buckets` counters per window: the more, the closer to the exact log.
    ///
    /// # Errors
    /// `config_invalid` naming the field, with the nearest accepted value.
    pub fn with_buckets(quota: Quota, buckets: u64) -> Result<Self> {
        let limit = limits::units("limit", quota.limit)?;
        let buckets = limits::in_range("buckets", buckets, 1, BUCKETS_MAX)?;
        let longest = WINDOW_MAX.min(BUCKET_MAX * buckets);
        let window = limits::period("window", quota.period, buckets, longest)?;
        Ok(Self { limit, bucket: window / buckets, buckets })
    }

    /// Rebuilds the algorithm from the quota id stored with a state.
    pub(super) fn from_quota_id(quota_id: QuotaId) -> Option<Self> {
        let [_, window, buckets, limit] = quota_id.0;
        let fits = (1..=BUCKETS_MAX).contains(&buckets)
            && (1..=WINDOW_MAX).contains(&window)
            && window.is_multiple_of(buckets)
            && window / buckets <= BUCKET_MAX
            && (1..=limits::UNITS_MAX).contains(&limit);
        fits.then(|| Self { limit, bucket: window / buckets, buckets })
    }

    fn counts(&self) -> usize {
        usize::try_from(self.buckets).unwrap_or(usize::MAX) + 1
    }

    fn uncharged(&self, view: &View, cost: Cost) -> Decision {
        let left = self.limit.saturating_sub(view.estimate());
        let reset_at_ms = to_ms_up(view.fresh_at());
        if cost.get() > self.limit {
            Decision::never(self.limit, left, reset_at_ms)
        } else if cost.get() <= left {
            Decision::allowed(self.limit, left, reset_at_ms)
        } else {
            let wait = view.time_of_estimate(self.limit - cost.get()) - view.reading;
            Decision::denied(self.limit, left, reset_at_ms, to_ms_up(wait))
        }
    }
}

impl Algorithm for SlidingWindow {
    fn name(&self) -> &str {
        Kind::SlidingWindow.name()
    }

    fn quota_id(&self) -> QuotaId {
        QuotaId([Kind::SlidingWindow.tag(), self.bucket * self.buckets, self.buckets, self.limit])
    }

    fn ceiling(&self) -> u64 {
        self.limit
    }

    fn horizon(&self) -> Micros {
        self.bucket * (self.buckets + 1)
    }

    fn window(&self) -> Micros {
        self.bucket * self.buckets
    }

    fn describe(&self) -> Description {
        let renewal = Renewal::Buckets(self.buckets);
        Description::new(self.limit, self.limit, self.window(), renewal)
    }

    fn accepts(&self, words: &[u64]) -> bool {
        match words {
            [] => true,
            [newest, counts @ ..] => {
                counts.len() == self.counts()
                    && *newest <= MICROS_MAX / self.bucket
                    && counts.iter().all(|count| *count <= limits::UNITS_MAX)
            }
        }
    }

    fn step(&self, words: &[u64], now: Now, cost: Cost) -> Step {
        let mut view = View::new(words, now, self.bucket, self.counts());
        let decision = self.uncharged(&view, cost);
        if !decision.is_allowed() {
            return Step { decision, write: None };
        }
        view.add(cost.get());
        let left = decision.remaining - cost.get();
        let decision = Decision::allowed(self.limit, left, to_ms_up(view.fresh_at()));
        Step { decision, write: Some(view.write()) }
    }

    fn peek(&self, words: &[u64], now: Now, cost: Cost) -> Decision {
        self.uncharged(&View::new(words, now, self.bucket, self.counts()), cost)
    }

    fn forecast(&self, words: &[u64], now: Now) -> Forecast {
        let view = View::new(words, now, self.bucket, self.counts());
        let estimate = view.estimate();
        let left = self.limit.saturating_sub(estimate);
        let next_unit_at_ms =
            (estimate > 0).then(|| to_ms_up(view.time_of_estimate(estimate.min(self.limit) - 1)));
        Forecast::new(self.limit, left, next_unit_at_ms, to_ms_up(view.fresh_at()))
    }

    fn refund(&self, words: &[u64], now: Now, cost: Cost, receipt: Receipt) -> Refund {
        let mut view = View::new(words, now, self.bucket, self.counts());
        let before = view.estimate();
        view.remove(cost.get(), receipt);
        // Of a bucket that is leaving, only a share still counts.
        let units = before - view.estimate();
        if units == 0 { Refund::NOTHING } else { Refund { units, write: Some(view.write()) } }
    }

    fn overdraw(&self, words: &[u64], now: Now, cost: Cost, max_debt: u64) -> Overdrawn {
        let mut view = View::new(words, now, self.bucket, self.counts());
        let room = limits::room_in_debt((self.limit, max_debt), view.estimate());
        let units = room.min(cost.get());
        if units == 0 {
            return Overdrawn::NOTHING;
        }
        view.add(units);
        Overdrawn { units, write: Some(view.write()) }
    }

    /// All of it: it leaves with its bucket.
    fn count_granted(&self, words: &[u64], now: Now, cost: Cost) -> Option<Write> {
        let mut view = View::new(words, now, self.bucket, self.counts());
        view.add(cost.get());
        Some(view.write())
    }

    fn debt(&self, words: &[u64], now: Now) -> Debt {
        let view = View::new(words, now, self.bucket, self.counts());
        Debt { units: view.estimate(), seen: view.at }
    }

    fn indebted(&self, debt: Debt) -> Write {
        let mut view = View::new(&[], Now::at(debt.seen), self.bucket, self.counts());
        view.add(debt.units);
        view.write()
    }

    fn scripted_step(&self) -> Option<ScriptedStep> {
        Some(ScriptedStep::SlidingWindow)
    }

    fn script_quota(&self, out: &mut Vec<u64>) {
        // Digits so short that a bucket times two of them stays exact.
        let bits = 52 - (u64::BITS - self.bucket.leading_zeros());
        out.extend([self.bucket, self.buckets, self.limit, 1 << bits]);
    }

    fn scaled(&self, numerator: u64, denominator: u64) -> Result<Rule> {
        let limit = limits::share(self.limit, numerator, denominator);
        Ok(Rule::new(Self { limit, ..self.clone() }))
    }
}
