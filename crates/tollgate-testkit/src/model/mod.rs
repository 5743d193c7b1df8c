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

mod quota;
pub(crate) mod real;

use core::fmt::Debug;

use tollgate_core::{Cost, Decision, Forecast, Micros, Now, Receipt};

pub use quota::{Kind, ModelQuota};

/// One key under one limit, as mathematics.
#[derive(Clone, Debug)]
pub struct Model {
    quota: ModelQuota,
    /// The quota the key was last charged or carried over under, with what it keeps.
    made_under: ModelQuota,
    key: Box<dyn Mathematics>,
}

impl Model {
    /// A fresh key under a quota that [`ModelQuota::rule`] accepts.
    #[must_use]
    pub fn new(quota: ModelQuota) -> Self {
        Self { quota, made_under: quota, key: quota.fresh() }
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
        let decision = self.key.peek(now, cost);
        if decision.is_allowed() { self.key.charge(now, cost) } else { decision }
    }

    /// Takes as many units as there are: the largest number from `min` to `max` that is allowed. If
    /// none is, the denial of `min`.
    pub fn check_up_to(&mut self, now: Now, min: Cost, max: Cost) -> Decision {
        let mut met = self.clone();
        met.meet(now);
        let granted = largest(min, max, |units| met.key.peek(now, units).is_allowed());
        self.check(now, granted.unwrap_or(min)).granting(granted)
    }

    /// The decision for a cost, without charging it; nothing is kept, not even a carry-over.
    #[must_use]
    pub fn peek(&self, now: Now, cost: Cost) -> Decision {
        self.met(now, |key| key.peek(now, cost))
    }

    /// What could be spent, and when more; nothing is kept.
    #[must_use]
    pub fn forecast(&self, now: Now) -> Forecast {
        self.met(now, |key| key.forecast(now))
    }

    /// Gives back at most what the charge took and is still counted; returns how much.
    pub fn refund(&mut self, now: Now, cost: Cost, receipt: Receipt) -> u64 {
        self.meet(now);
        self.key.refund(now, cost, receipt)
    }

    /// Forgets the key.
    pub fn reset(&mut self) {
        *self = Self::new(self.quota);
    }

    /// First contact with a changed quota: what was spent is kept.
    ///
    /// Let m be the later of now and what the old state has seen. The units that the old quota
    /// still counts at m, rounded up to a whole unit and at most the new ceiling, are owed under
    /// the new quota as if they had been spent at m: no free refill, and no wait longer than the
    /// new quota needs.
    pub(crate) fn meet(&mut self, now: Now) {
        if self.quota == self.made_under {
            return;
        }
        if !self.quota.means_the_same(&self.made_under) {
            let old = core::mem::replace(&mut self.key, self.quota.fresh());
            // A key that was never charged has nothing to carry, not even a time.
            if !old.is_untouched() {
                let at = now.effective().max(old.seen());
                self.key.owe(at, old.owed(at).min(self.quota.ceiling()));
            }
        }
        self.key.set_limit(self.quota.ceiling());
        self.made_under = self.quota;
    }

    /// The key after a first contact that is not kept.
    fn met<T>(&self, now: Now, of: impl FnOnce(&dyn Mathematics) -> T) -> T {
        if self.quota == self.made_under {
            return of(&*self.key);
        }
        let mut met = self.clone();
        met.meet(now);
        of(&*met.key)
    }
}

/// The most that one clock could have admitted.
pub(crate) struct Bound {
    /// What was admitted from this instant on counts.
    pub(crate) since: Micros,
    pub(crate) most: u128,
}

/// What each algorithm defines: one key under its quota.
trait Mathematics: CloneBox + Debug + Send + Sync {
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
    /// Puts another limit in force; `false` where only the whole quota explains what is kept.
    fn set_limit(&mut self, limit: u64) -> bool;
    /// What the quota admits to a fresh key, however it is asked, from the first admission to the
    /// last.
    fn bound(&self, first: Micros, last: Micros) -> Bound;
}

/// Copies a key whose algorithm is not known.
trait CloneBox {
    fn clone_box(&self) -> Box<dyn Mathematics>;
}

impl<M: Mathematics + Clone + 'static> CloneBox for M {
    fn clone_box(&self) -> Box<dyn Mathematics> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Mathematics> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}

/// The largest number from `min` to `max` that is allowed, where fewer units than allowed ones are
/// allowed.
pub(crate) fn largest(
    min: Cost,
    max: Cost,
    mut is_allowed: impl FnMut(Cost) -> bool,
) -> Option<Cost> {
    if !is_allowed(min) {
        return None;
    }
    let (mut allowed, mut above) = (min.get(), max.max(min).get() + 1);
    while allowed + 1 < above {
        let units = allowed.midpoint(above);
        if Cost::new(units).is_ok_and(&mut is_allowed) {
            allowed = units;
        } else {
            above = units;
        }
    }
    Cost::new(allowed).ok()
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
