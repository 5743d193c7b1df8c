//! What decides: a limiter in this process today, over any store; anything that answers the same
//! questions tomorrow.

use core::future::Future;
use std::sync::Arc;

use tollgate::store::Store;
use tollgate::{Charge, Clock, Decision, Limiter, Receipt, Result};

/// Decides admissions and takes refunds. Failure modes are the business of whoever implements it.
pub trait Decide: Send + Sync + 'static {
    /// Decides one charge at once, where that needs no waiting; else `None`, and nothing is charged.
    ///
    /// # Errors
    /// When no decision could be made.
    fn decide_now(&self, charge: Charge<'_>) -> Option<Result<Decision>>;

    /// Decides charges, all or nothing.
    ///
    /// # Errors
    /// When no decision could be made.
    fn decide(&self, charges: &[Charge<'_>]) -> impl Future<Output = Result<Decision>> + Send;

    /// Gives back at most what a charge took and is still counted.
    ///
    /// # Errors
    /// When it is not known whether anything was given back.
    fn refund(
        &self,
        charge: Charge<'_>,
        receipt: Receipt,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Where time comes from: delays, and the times in headers.
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
