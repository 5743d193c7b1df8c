//! What decides: a limiter in this process today, over any store; anything that answers the same
//! questions tomorrow.

use core::future::Future;
use std::sync::Arc;

use tollgate::store::Store;
use tollgate::{Admission, Charge, Clock, Decision, Limiter, Receipt, Result};

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
    fn decide(&self, charges: &[Charge<'_>]) -> impl Future<Output = Result<Answer>> + Send;

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

/// A decision, and those it is made of.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The decision on all charges together.
    pub decision: Decision,
    /// The decision of each charge, in their order. Empty when there was one charge only, or when
    /// the store was not asked.
    pub parts: Vec<Decision>,
}

impl Answer {
    /// The decision of one of the charges: its own, or the one on all of them.
    #[must_use]
    pub fn part(&self, index: usize) -> &Decision {
        self.parts.get(index).unwrap_or(&self.decision)
    }

    /// What to give to a refund of one of the charges.
    #[must_use]
    pub fn receipt(&self, index: usize) -> Option<Receipt> {
        self.part(index).receipt()
    }
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Self {
        Self { decision, parts: Vec::new() }
    }
}

impl<S: Store + Send + Sync + 'static> Decide for Limiter<S> {
    #[inline]
    fn decide_now(&self, charge: Charge<'_>) -> Option<Result<Decision>> {
        self.check_now(charge)
    }

    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Answer> {
        if let [only] = charges {
            return self.check(*only).await.map(Answer::from);
        }
        let combined = self.check_parts(&Admission::of(charges)).await?;
        Ok(Answer { decision: combined.decision, parts: combined.parts })
    }

    async fn refund(&self, charge: Charge<'_>, receipt: Receipt) -> Result<()> {
        Self::refund(self, charge, receipt).await.map(|_| ())
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

    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Answer> {
        (**self).decide(charges).await
    }

    async fn refund(&self, charge: Charge<'_>, receipt: Receipt) -> Result<()> {
        (**self).refund(charge, receipt).await
    }

    fn clock(&self) -> &dyn Clock {
        (**self).clock()
    }
}
