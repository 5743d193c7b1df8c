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

use tollgate_core::{Cost, Decision, Forecast, Micros, Now, Receipt, Settlement};

pub use quota::{Kind, ModelQuota};

/// The largest number of units that any quota has: no account counts more in one place.
const UNITS_MAX: u64 = 1 << 48;
/// By how much clocks may differ: what is further ahead than that is debt.
const CLOCKS_DIFFER: Micros = 60_000_000;
/// How many quotas beside one keep their own account of a key.
const OTHERS_MAX: usize = 3;

/// One key under one limit, as mathematics.
#[derive(Clone, Debug)]
pub struct Model {
    quota: ModelQuota,
    /// What the key has spent, as the quota sees it that it was last charged or carried over under.
    newest: Account,
    /// The same under quotas that it had before.
    others: Vec<Account>,
}

/// What a key has spent, as one quota sees it.
#[derive(Clone, Debug)]
struct Account {
    quota: ModelQuota,
    key: Box<dyn Mathematics>,
}

impl Account {
    fn fresh(quota: ModelQuota) -> Self {
        Self { quota, key: quota.fresh() }
    }

    /// Units that the quota still counts.
    fn owed(&self, now: Now) -> u64 {
        self.key.owed(now)
    }

    /// Whether anything in it counts.
    fn counts(&self, now: Now) -> bool {
        self.owed(now) > 0
    }
}

impl Model {
    /// A fresh key under a quota that [`ModelQuota::rule`] accepts.
    #[must_use]
    pub fn new(quota: ModelQuota) -> Self {
        Self { quota, newest: Account::fresh(quota), others: Vec::new() }
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
        let decision = self.peek(now, cost);
        if !decision.is_allowed() {
            return decision;
        }
        self.others.retain(|other| other.counts(now));
        for other in &mut self.others {
            other.key.count_granted(now, cost);
        }
        self.newest.key.charge(now, cost)
    }

    /// Takes as many units as there are: the largest number from `min` to `max` that is allowed. If
    /// none is, the denial of `min`.
    pub fn check_up_to(&mut self, now: Now, min: Cost, max: Cost) -> Decision {
        let granted = largest(min, max, |units| self.peek(now, units).is_allowed());
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

    /// Sets the final cost of a charge that took `cost`. Less: what the charge took and is still
    /// counted is given back, at most the rest. More: the rest is charged whether it fits or not,
    /// until the key owes its ceiling and `max_debt` units; what exceeds that is dropped. No more
    /// than the largest cost is charged.
    pub fn settle(
        &mut self,
        now: Now,
        cost: Cost,
        (receipt, to): (Receipt, u64),
        max_debt: u64,
    ) -> Settlement {
        self.meet(now);
        if let Ok(unused) = Cost::new(cost.get().saturating_sub(to)) {
            let units = self.newest.key.refund(now, unused, receipt);
            if units > 0 {
                self.others.retain(|other| other.counts(now));
            }
            return Settlement::giving_back(units);
        }
        let beyond = to - cost.get();
        let Ok(more) = Cost::new(beyond.min(Cost::MAX.get())) else { return Settlement::NOTHING };
        let charged = self.newest.key.overdraw(now, more, max_debt);
        if let Ok(charged) = Cost::new(charged) {
            self.others.retain(|other| other.counts(now));
            for other in &mut self.others {
                other.key.count_granted(now, charged);
            }
        }
        Settlement::charging(charged, beyond - charged)
    }

    /// How the key stands: allowed, with the numbers of a peek.
    #[must_use]
    pub fn standing(&self, now: Now) -> Decision {
        let peeked = self.peek(now, Cost::ONE);
        Decision::allowed(peeked.limit, peeked.remaining, peeked.reset_at_ms)
    }

    /// Forgets the key.
    pub fn reset(&mut self) {
        *self = Self::new(self.quota);
    }

    /// First contact with a changed quota: what was spent is kept.
    ///
    /// Each quota of a key has an account of it: what is granted under one counts in all. Where
    /// units decay one after another, an account holds no more than its ceiling, or it would lock
    /// the key out for longer than its quota can; windows count everything. So a quota that comes
    /// back finds everything that was spent meanwhile, and nothing of its own is forgotten. An
    /// account in which nothing counts any more is given up.
    ///
    /// A quota without an account begins one. Let m be the later of now and what any account has
    /// seen. The units that one of them still counts, the most of all, rounded up to a whole unit
    /// and at most the new ceiling, are owed under the new quota as if they had been spent at m: no
    /// free refill, and no wait longer than the new quota needs. Debt stays where it was made.
    pub(crate) fn meet(&mut self, now: Now) {
        if !self.quota.means_the_same(&self.newest.quota) {
            self.turn_to_own_account(now);
        }
        self.newest.key.set_limit(self.quota.ceiling());
        self.newest.quota = self.quota;
    }

    fn turn_to_own_account(&mut self, now: Now) {
        let quota = self.quota;
        let known = self.others.iter().position(|other| quota.means_the_same(&other.quota));
        if let Some(own) = known.and_then(|index| self.others.get_mut(index)) {
            core::mem::swap(own, &mut self.newest);
            return;
        }
        let replaced = core::mem::replace(&mut self.newest, Account::fresh(quota));
        // A key that was never charged has nothing to carry, not even a time.
        if replaced.key.is_untouched() {
            return;
        }
        self.others.push(replaced);
        let seen = self.others.iter().map(|other| other.key.seen(now)).max();
        let owed = self.others.iter().map(|other| other.owed(now)).max();
        let at = now.effective().max(seen.unwrap_or(0));
        self.newest.key.owe(at, owed.unwrap_or(0).min(quota.ceiling()));
        self.others.retain(|other| other.counts(now));
        self.forget_the_least(now);
    }

    /// Too many accounts: those that owe most stay.
    fn forget_the_least(&mut self, now: Now) {
        let place = |other: &Account| {
            let quota_id = other.quota.rule().map_or([0; 4], |rule| rule.quota_id().family().0);
            (other.owed(now), quota_id)
        };
        while self.others.len() > OTHERS_MAX {
            let places = self.others.iter().map(place).enumerate();
            let Some((least, _)) = places.min_by_key(|(_, place)| *place) else { return };
            self.others.remove(least);
        }
    }

    /// The key after a first contact that is not kept.
    fn met<T>(&self, now: Now, of: impl FnOnce(&dyn Mathematics) -> T) -> T {
        if self.quota == self.newest.quota {
            return of(&*self.newest.key);
        }
        let mut met = self.clone();
        met.meet(now);
        of(&*met.newest.key)
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
    /// Counts a charge that another quota granted.
    fn count_granted(&mut self, now: Now, cost: Cost);
    fn refund(&mut self, now: Now, cost: Cost, receipt: Receipt) -> u64;
    /// Charges as many of these units as the ceiling and the largest debt have room for; returns
    /// how many.
    fn overdraw(&mut self, now: Now, units: Cost, max_debt: u64) -> u64;
    /// The time the state has seen, in whole microseconds.
    fn seen(&self, now: Now) -> Micros;
    /// Units still counted at the later of now and what was seen, rounded up.
    fn owed(&self, now: Now) -> u64;
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
