//! How a limiter is put together.

use core::time::Duration;
use std::sync::Arc;

use super::Limiter;
use super::failure::{BreakerConfig, Breakers, FailurePolicy, Share};
use super::observer::Observer;
use crate::clock::Clock;
#[cfg(not(target_arch = "wasm32"))]
use crate::clock::SystemClock;
use crate::store::Store;
use crate::time::{Micros, micros_of};

/// The clock of a limiter: the system's without an indirection, or any other.
#[derive(Clone, Debug)]
pub(super) enum ClockSource {
    #[cfg(not(target_arch = "wasm32"))]
    System(SystemClock),
    Custom(Arc<dyn Clock>),
}

impl ClockSource {
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn system() -> Self {
        Self::System(SystemClock::new())
    }

    pub(super) fn custom(clock: impl Clock + 'static) -> Self {
        Self::Custom(Arc::new(clock))
    }

    pub(super) fn as_dyn(&self) -> &dyn Clock {
        match self {
            #[cfg(not(target_arch = "wasm32"))]
            Self::System(clock) => clock,
            Self::Custom(clock) => &**clock,
        }
    }

    #[inline]
    pub(super) fn now(&self) -> Micros {
        match self {
            #[cfg(not(target_arch = "wasm32"))]
            Self::System(clock) => clock.now(),
            Self::Custom(clock) => clock.now(),
        }
    }
}

/// Sets what a [`Limiter`] does beyond calling its store.
///
/// ```
/// use std::num::NonZeroU32;
/// use std::time::Duration;
/// use tollgate_core::Limiter;
/// use tollgate_core::limiter::{BreakerConfig, Share};
/// use tollgate_core::store::Memory;
///
/// /// The processes that share the quotas.
/// const PROCESSES: NonZeroU32 = NonZeroU32::new(3).unwrap();
///
/// let breaker = BreakerConfig::default().failures(3).open_for(Duration::from_secs(1));
/// let limiter = Limiter::builder(Memory::new())
///     .deadline(Duration::from_millis(50))
///     .breaker(breaker)
///     .local_share(Share::one_of(PROCESSES))
///     .build();
/// # let _ = limiter;
/// ```
#[derive(Debug)]
#[must_use]
pub struct LimiterBuilder<S> {
    store: S,
    clock: ClockSource,
    failure: FailurePolicy,
}

impl<S: Store> LimiterBuilder<S> {
    pub(super) fn new(store: S, clock: ClockSource) -> Self {
        Self { store, clock, failure: FailurePolicy::default() }
    }

    /// Takes time from another clock.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = ClockSource::custom(clock);
        self
    }

    /// How long the store may take to answer, 100 ms by default. Stores in this process are not
    /// timed.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.failure.deadline = micros_of(deadline);
        self
    }

    /// How many calls may wait for the store at once, 10,000 by default; more get `queue_full`.
    pub fn max_in_flight(mut self, calls: usize) -> Self {
        self.failure.max_in_flight = calls;
        self
    }

    /// When to stop calling a server that does not answer. Each server of a store has a breaker of
    /// its own.
    pub fn breaker(mut self, config: BreakerConfig) -> Self {
        self.failure.breakers = Breakers::new(config);
        self
    }

    /// The share of each quota that this process grants alone, for limits that are `local` in an
    /// outage; all of it by default. With N nodes, `Share::one_of(N)` keeps the sum at the quota,
    /// as long as each share is a unit or more: a smaller one counts as one.
    pub fn local_share(mut self, share: Share) -> Self {
        self.failure.local.share = share;
        self
    }

    /// Reports degraded decisions and clocks that disagree.
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.failure.observer = Some(Arc::new(observer));
        self
    }

    /// The limiter.
    pub fn build(self) -> Limiter<S> {
        Limiter { store: self.store, clock: self.clock, failure: self.failure, made_store: false }
    }
}
