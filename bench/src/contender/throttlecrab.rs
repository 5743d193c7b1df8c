//! throttlecrab: the library needs `&mut`, so it is in a `Mutex`, as its documentation states.
//!
//! `PeriodicStore` is the fastest of its stores here: it sweeps once a minute, while
//! `AdaptiveStore` walks all keys at least every 100,000 operations. The caller reads the clock
//! (`SystemTime`), before taking the lock.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use ::throttlecrab::{CellError, PeriodicStore, RateLimitResult, RateLimiter};

use super::{Contender, Setup};

/// throttlecrab behind one lock.
pub(crate) struct Locked {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    burst: i64,
    count: i64,
    period: i64,
}

impl Contender for Locked {
    type Answer = Result<(bool, RateLimitResult), CellError>;

    fn new(setup: &Setup) -> Self {
        let store = PeriodicStore::builder().capacity(setup.keys).build();
        Self {
            limiter: Mutex::new(RateLimiter::new(store)),
            burst: i64::from(setup.burst),
            count: i64::from(setup.count),
            period: setup.period.as_secs().cast_signed(),
        }
    }

    #[inline]
    fn check(&self, key: &String) -> Self::Answer {
        let now = SystemTime::now();
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        limiter.rate_limit(key, self.burst, self.count, self.period, 1, now)
    }

    #[inline]
    fn is_allowed(&self, answer: &Self::Answer) -> bool {
        matches!(answer, Ok((true, _)))
    }
}
