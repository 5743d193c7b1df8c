//! The interface between a layer and its limiter.

use core::future::Future;
use std::sync::Arc;

use tollgate::store::Store;
use tollgate::{Charge, Clock, Decision, Limiter, Receipt, Result};

/// Decides charges and refunds them: a [`Limiter`] over any store, or a client of a service that
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

    /// Refunds at most the units of a charge that are still counted.
    ///
    /// # Errors
    /// When it is unknown whether anything was refunded.
    fn refund(
        &self,
        charge: Charge<'_>,
        receipt: Receipt,
    ) -> impl Future<Output = Result<()>> + Send;

    /// The clock for delays and for the times in headers.
    fn clock(&self) -> &dyn Clock;
}

impl<S: Store + Send + Sync + 'static> Decide for Limiter<S> {
    #[inline]
    fn decide_now(&self, charge: Charge<'_>) -> Option<Result<Decision>> {
        self.check_now(charge)
    }

    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Decision> {
        self.check(charges).await
    }

    async fn refund(&self, charge: Charge<'_>, receipt: Receipt) -> Result<()> {
        Self::refund(self, charge.refund(receipt)).await.map(|_| ())
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

    async fn refund(&self, charge: Charge<'_>, receipt: Receipt) -> Result<()> {
        (**self).refund(charge, receipt).await
    }

    fn clock(&self) -> &dyn Clock {
        (**self).clock()
    }
}
