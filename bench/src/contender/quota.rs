//! quota: a sharded map behind a direct-mapped cache of pointers, and quanta's clock.
//!
//! `consume` returns a snapshot with the available units (a floating-point number, computed
//! on request), not when to retry. `check` answers with a bool.

use ::quota::{QuotaPolicy, QuotaPool, QuotaResult, RefillRate};

use super::{Contender, Setup};

/// The snapshot form.
pub(crate) struct Consume(QuotaPool<String>);

/// The bool form.
pub(crate) struct Check(QuotaPool<String>);

impl Contender for Consume {
    type Answer = QuotaResult;

    fn new(setup: &Setup) -> Self {
        Self(pool(setup))
    }

    #[inline]
    fn check(&self, key: &String) -> QuotaResult {
        self.0.consume(key.as_str(), 1)
    }

    #[inline]
    fn is_allowed(&self, answer: &QuotaResult) -> bool {
        answer.is_ok()
    }
}

impl Contender for Check {
    type Answer = bool;

    fn new(setup: &Setup) -> Self {
        Self(pool(setup))
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        self.0.check(key.as_str(), 1)
    }

    #[inline]
    fn is_allowed(&self, answer: &bool) -> bool {
        *answer
    }
}

/// Room is reserved for the keys, as its documentation advises.
fn pool(setup: &Setup) -> QuotaPool<String> {
    let per_second = f64::from(setup.count) / setup.period.as_secs_f64();
    let policy = QuotaPolicy::new()
        .set_capacity(f64::from(setup.burst))
        .set_refill_rate(RefillRate::per_sec(per_second));
    QuotaPool::with_capacity(policy, u64::from(setup.burst), setup.keys)
}
