//! governor: keyed, on its default store (`DashMap`), hasher (SipHash) and clock (quanta).
//!
//! Twice: as it comes, where an allowance carries no data; and with
//! `StateInformationMiddleware`, where it carries a snapshot from which the remaining units can be
//! computed. Neither computes them here: governor does so only on request.

use std::num::NonZeroU32;

use ::governor::clock::QuantaInstant;
use ::governor::middleware::{StateInformationMiddleware, StateSnapshot};
use ::governor::{DefaultKeyedRateLimiter, NotUntil, Quota, RateLimiter};

use super::{Contender, Setup};

/// governor as it comes.
#[derive(Debug)]
pub(crate) struct Plain(DefaultKeyedRateLimiter<String>);

/// governor with a snapshot in every allowance.
#[derive(Debug)]
pub(crate) struct WithState(DefaultKeyedRateLimiter<String, StateInformationMiddleware>);

impl Contender for Plain {
    type Answer = Result<(), NotUntil<QuantaInstant>>;

    fn new(setup: &Setup) -> Self {
        Self(RateLimiter::keyed(quota(setup)))
    }

    #[inline]
    fn check(&self, key: &String) -> Self::Answer {
        self.0.check_key(key)
    }

    #[inline]
    fn is_allowed(&self, answer: &Self::Answer) -> bool {
        answer.is_ok()
    }
}

impl Contender for WithState {
    type Answer = Result<StateSnapshot, NotUntil<QuantaInstant>>;

    fn new(setup: &Setup) -> Self {
        Self(RateLimiter::keyed(quota(setup)).with_middleware())
    }

    #[inline]
    fn check(&self, key: &String) -> Self::Answer {
        self.0.check_key(key)
    }

    #[inline]
    fn is_allowed(&self, answer: &Self::Answer) -> bool {
        answer.is_ok()
    }
}

fn quota(setup: &Setup) -> Quota {
    let burst = NonZeroU32::new(setup.burst).unwrap_or(NonZeroU32::MIN);
    Quota::with_period(setup.period / setup.count)
        .expect("a period of a second or more over a u32 is not zero")
        .allow_burst(burst)
}
