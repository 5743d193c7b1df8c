//! The interface between a layer and its limiter.

use core::future::Future;
use std::sync::Arc;

use tollgate::store::Store;
use tollgate::{Charge, Clock, Decision, Limiter, Receipt, Result};

/// Decides charges and settles them: a [`Limiter`] over any store, or a client of a service that
/// decides. The implementation handles outages.
pub trait Decide: Send + Sync + 'static {
    /// Decides one charge if that needs no waiting. `None` otherwise, and nothing is charged.
    ///
    /// # Errors
    /// When no decision could be made.
    fn decide_now(&self, charge: Charge<'_>) -> Option<Result<Decision>>;

    /// Decides charges, all or nothing.
    ///
    /// # Errors
    /// When no decision could be made.
    fn decide(&self, charges: &[Charge<'_>]) -> impl Future<Output = Result<Decision>> + Send;

    /// Sets the final cost of a charge that took its cost, as [`Limiter::settle`] does; 0 refunds
    /// it.
    ///
    /// # Errors
    /// When it is unknown whether anything was settled.
    fn settle(
        &self,
        charge: Charge<'_>,
        receipt: Receipt,
        to: u64,
    ) -> impl Future<Output = Result<()>> + Send;

    /// The clock for delays and for the times in headers.
    fn clock(&self) -> &dyn Clock;
}

impl<S: Store + Send + Sync + 'static> Decide for Limiter<S> {
    #[inline]
    fn decide_now(&self, charge: Charge<'_>) -> Option<Result<Decision>> {
        // Other stores are called by `check` alone, which reads the clock once.
        if !self.store().capability().in_process {
            return None;
        }
        self.store().decide_now(&charge, Self::clock(self).now())
    }

    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Decision> {
        self.check(charges).await
    }

    async fn settle(&self, charge: Charge<'_>, receipt: Receipt, to: u64) -> Result<()> {
        Self::settle(self, charge.settle(receipt, to)).await.map(|_| ())
    }

    fn clock(&self) -> &dyn Clock {
        Self::clock(self)
    }
}

impl<D: Decide> Decide for Arc<D> {
    #[inline]
    fn decide_now(&self, charge: Charge<'_>) -> Option<Result<Decision>> {
        (**self).decide_now(charge)
    }

    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Decision> {
        (**self).decide(charges).await
    }

    async fn settle(&self, charge: Charge<'_>, receipt: Receipt, to: u64) -> Result<()> {
        (**self).settle(charge, receipt, to).await
    }

    fn clock(&self) -> &dyn Clock {
        (**self).clock()
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{Limit, Quota, Verdict};
    use tollgate_testkit::ReferenceStore;

    use super::*;

    #[test]
    fn only_a_store_that_never_waits_decides_at_once() {
        let limit = Limit::gcra("p", Quota::per_hour(1)).unwrap();
        let waiting = Limiter::new(ReferenceStore::new());
        assert!(waiting.decide_now(limit.charge("k")).is_none());
        let memory = Limiter::in_memory();
        let decide = || memory.decide_now(limit.charge("k")).unwrap().unwrap().verdict;
        assert_eq!([decide(), decide()], [Verdict::Allowed, Verdict::Denied]);
    }
}
