//! The reference model: every algorithm as its mathematics, in exact rational numbers.
//!
//! It is written from the definitions (real numbers, max, floor, ceiling), not from the integer
//! code of the algorithms: slow and obvious instead of fast. Where code, a store or a port in
//! another language decides differently, the model is right.
//!
//! A [`Model`] is one key. Decisions are made at m = max(now, the latest time of the key); waits
//! are reported relative to the reading of the clock.
//!
//! ```
//! use tollgate_core::{Cost, Now};
//! use tollgate_testkit::model::{Model, ModelQuota};
//!
//! // Two units per second, both at once.
//! let mut key = Model::new(ModelQuota::Gcra { limit: 2, period_us: 1_000_000, burst: 2 });
//! let now = Now::at(1_700_000_000_000_000);
//! assert_eq!(key.check(now, Cost::ONE).remaining, 1);
//! assert_eq!(key.check(now, Cost::ONE).remaining, 0);
//! assert_eq!(key.check(now, Cost::ONE).retry_after_ms, Some(500));
//! ```

mod carry;
mod fixed_window;
mod quota;
pub(crate) mod real;
mod schedule;
mod sliding_log;
mod sliding_window;

use tollgate_core::{Cost, Decision, Forecast, Micros, Now, Receipt};

pub use quota::{Kind, ModelQuota};

use fixed_window::FixedWindow;
use schedule::Schedule;
use sliding_log::SlidingLog;
use sliding_window::SlidingWindow;

/// One key under one limit, as mathematics.
#[derive(Clone, Debug)]
pub struct Model {
    quota: ModelQuota,
    /// The quota the key was last charged or carried over under, with what it remembers.
    made_under: ModelQuota,
    family: Family,
}

impl Model {
    /// A fresh key under a quota that [`ModelQuota::rule`] accepts.
    #[must_use]
    pub fn new(quota: ModelQuota) -> Self {
        Self { quota, made_under: quota, family: Family::fresh(&quota) }
    }

    /// The quota in force.
    #[must_use]
    pub const fn quota(&self) -> &ModelQuota {
        &self.quota
    }

    /// Puts another quota in force. What was spent is carried over at the first contact.
    pub const fn change(&mut self, quota: ModelQuota) {
        self.quota = quota;
    }

    /// Decides and, if allowed, charges. A changed quota is carried over whatever the verdict.
    pub fn check(&mut self, now: Now, cost: Cost) -> Decision {
        self.meet(now);
        let decision = self.family.mathematics().peek(now, cost);
        if decision.is_allowed() {
            self.family.mathematics_mut().charge(now, cost)
        } else {
            decision
        }
    }

    /// The decision for a cost, without charging it; nothing is kept, not even a carry-over.
    #[must_use]
    pub fn peek(&self, now: Now, cost: Cost) -> Decision {
        self.met(now).mathematics().peek(now, cost)
    }

    /// What could be spent, and when more; nothing is kept.
    #[must_use]
    pub fn forecast(&self, now: Now) -> Forecast {
        self.met(now).mathematics().forecast(now)
    }

    /// Gives back at most what the charge took and is still counted; returns how much.
    pub fn refund(&mut self, now: Now, cost: Cost, receipt: Receipt) -> u64 {
        self.meet(now);
        self.family.mathematics_mut().refund(now, cost, receipt)
    }

    /// Forgets the key.
    pub fn reset(&mut self) {
        *self = Self::new(self.quota);
    }

    fn is_changed(&self) -> bool {
        !self.quota.means_the_same(&self.made_under)
    }

    /// First contact with a changed quota.
    pub(crate) fn meet(&mut self, now: Now) {
        if self.is_changed() {
            self.family = carry::carried(&self.family, &self.quota, now);
        }
        self.family.mathematics_mut().set_limit(self.quota.ceiling());
        self.made_under = self.quota;
    }

    fn met(&self, now: Now) -> std::borrow::Cow<'_, Family> {
        if self.quota == self.made_under {
            return std::borrow::Cow::Borrowed(&self.family);
        }
        let mut met = self.clone();
        met.meet(now);
        std::borrow::Cow::Owned(met.family)
    }
}

/// What each family of algorithms defines.
trait Mathematics {
    /// The decision with uncharged numbers.
    fn peek(&self, now: Now, cost: Cost) -> Decision;
    /// Charges a cost that `peek` allows.
    fn charge(&mut self, now: Now, cost: Cost) -> Decision;
    fn forecast(&self, now: Now) -> Forecast;
    fn refund(&mut self, now: Now, cost: Cost, receipt: Receipt) -> u64;
    /// The time the state has seen, in whole microseconds.
    fn seen(&self) -> Micros;
    /// Units still counted at an instant that is not before `seen`, rounded up.
    fn owed(&self, at: Micros) -> u64;
    /// Makes a fresh key one that spent `units` at an instant.
    fn owe(&mut self, at: Micros, units: u64);
    fn is_untouched(&self) -> bool;
    /// Puts another limit in force, where what is remembered does not depend on it.
    fn set_limit(&mut self, _limit: u64) {}
}

#[derive(Clone, Debug)]
enum Family {
    Schedule(Schedule),
    FixedWindow(FixedWindow),
    SlidingWindow(SlidingWindow),
    SlidingLog(SlidingLog),
}

impl Family {
    fn fresh(quota: &ModelQuota) -> Self {
        let whole = || (quota.ceiling(), 1);
        match *quota {
            ModelQuota::FixedWindow { limit, window_us, anchor } => {
                Self::FixedWindow(FixedWindow::new(limit, window_us, anchor))
            }
            ModelQuota::SlidingWindow { limit, window_us, buckets } => {
                Self::SlidingWindow(SlidingWindow::new(limit, window_us, buckets))
            }
            ModelQuota::SlidingLog { limit, window_us } => {
                Self::SlidingLog(SlidingLog::new(limit, window_us))
            }
            ModelQuota::Gcra { .. }
            | ModelQuota::TokenBucket { .. }
            | ModelQuota::LeakyBucket { .. } => {
                Self::Schedule(Schedule::new(quota, quota.rate().unwrap_or_else(whole)))
            }
        }
    }

    fn mathematics(&self) -> &dyn Mathematics {
        match self {
            Self::Schedule(family) => family,
            Self::FixedWindow(family) => family,
            Self::SlidingWindow(family) => family,
            Self::SlidingLog(family) => family,
        }
    }

    fn mathematics_mut(&mut self) -> &mut dyn Mathematics {
        match self {
            Self::Schedule(family) => family,
            Self::FixedWindow(family) => family,
            Self::SlidingWindow(family) => family,
            Self::SlidingLog(family) => family,
        }
    }
}

/// Microseconds as whole milliseconds, rounded up.
const fn ms_up(micros: Micros) -> u64 {
    micros.div_ceil(1_000)
}

/// The instants that a receipt can mean: it names an end, rounded up to a millisecond.
///
/// Where several charges can have ended in that millisecond, the model takes the choice that gives
/// back least: a refund may return less than was taken, never more than is still counted.
fn millisecond_before(end: Micros) -> (Micros, Micros) {
    let until = ms_up(end) * 1_000;
    (until.saturating_sub(1_000), until)
}
