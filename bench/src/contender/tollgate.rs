//! Tollgate: the synchronous path of the memory store, with the default clock.
//!
//! The answer is the whole decision: verdict, ceiling, remaining units, when the key is fresh again
//! and when to retry, all computed.

use ::tollgate::algorithm::Gcra;
use ::tollgate::store::Memory;
use ::tollgate::{Decision, Limit, Limiter, Quota, Result};

use super::{Contender, Setup};

/// Tollgate on its memory store.
#[derive(Debug)]
pub(crate) struct Tollgate {
    limiter: Limiter<Memory>,
    limit: Limit,
}

impl Tollgate {
    fn build(setup: &Setup) -> Result<Self> {
        let quota = Quota::new(u64::from(setup.count), setup.period);
        let algorithm = Gcra::with_burst(quota, u64::from(setup.burst))?;
        let mut store = Memory::builder();
        if !setup.has_default_table {
            // Room for an uneven spread, so that no key is evicted.
            store = store.max_keys(setup.keys + setup.keys / 16 + 1_024);
        }
        Ok(Self { limiter: Limiter::new(store.build()?), limit: Limit::new("api", algorithm)? })
    }
}

impl Contender for Tollgate {
    type Answer = Result<Decision>;

    fn new(setup: &Setup) -> Self {
        Self::build(setup).expect("the quota and the number of keys are in range")
    }

    #[inline]
    fn check(&self, key: &String) -> Self::Answer {
        self.limiter.sync().check(self.limit.charge(key))
    }

    #[inline]
    fn is_allowed(&self, answer: &Self::Answer) -> bool {
        answer.as_ref().is_ok_and(Decision::is_allowed)
    }
}
