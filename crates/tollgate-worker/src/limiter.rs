//! A limiter that requests of a Worker may share.

use tollgate_core::Limiter;
use tollgate_core::limiter::{BreakerConfig, LimiterBuilder};
use tollgate_core::store::Store;

use crate::clock::WorkerClock;

/// A limiter on the clock of the runtime, for one request or for all of them.
///
/// The runtime never drops the future of a request that it ends. A bound on calls under way would
/// fill up with those, and a breaker would wait for ever for the probe of one: both are off. The
/// runtime has bounds of its own, and each call has its deadline.
pub fn limiter<S: Store>(store: S) -> LimiterBuilder<S> {
    let off = BreakerConfig::default().failures(0);
    Limiter::with_clock(store, WorkerClock).max_in_flight(usize::MAX).breaker(off)
}
