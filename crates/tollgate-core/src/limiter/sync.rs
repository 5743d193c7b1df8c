//! The same verbs without futures, over stores that never wait. Limited to those stores by type.

use super::derive::{self, Derived};
use super::{Limiter, not_empty, only_refunds, only_settlements, peek};
use crate::charge::Admission;
use crate::decision::{Decision, Forecast};
use crate::error::Result;
use crate::settled::Settled;
use crate::store::SyncStore;
use crate::time::Micros;

/// A [`Limiter`] over a store that never waits: the same verbs, without futures.
///
/// ```
/// use tollgate_core::{Limit, Limiter, Quota};
///
/// let limiter = Limiter::in_memory();
/// let api = Limit::gcra("api", Quota::per_minute(2))?;
/// let decided = limiter.sync().check_batch([api.charge("ada"); 3]);
/// assert!(decided[1].as_ref().is_ok_and(|decision| decision.is_allowed()));
/// assert!(decided[2].as_ref().is_ok_and(|decision| !decision.is_allowed()));
/// # Ok::<(), tollgate_core::Error>(())
/// ```
#[derive(Debug)]
pub struct SyncLimiter<'l, S>(&'l Limiter<S>);

impl<S> Clone for SyncLimiter<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for SyncLimiter<'_, S> {}

impl<S: SyncStore> Limiter<S> {
    /// The same limiter without futures.
    #[must_use]
    #[inline]
    pub const fn sync(&self) -> SyncLimiter<'_, S> {
        SyncLimiter(self)
    }
}

impl<S: SyncStore> SyncLimiter<'_, S> {
    /// [`Limiter::check`], equal to it decision by decision.
    ///
    /// # Errors
    /// As [`Limiter::check`].
    // With a mere hint, a program with several calls has none of them inlined, and the charge goes
    // through memory: 264 instructions instead of 203 on a hot key in the memory store.
    #[inline(always)]
    pub fn check<'a>(self, charges: impl Into<Admission<'a>>) -> Result<Decision> {
        // First: a reading orders memory, so an admission made before it would be written and read
        // again.
        let now = self.0.clock.now();
        self.decide(&charges.into(), now)
    }

    /// [`Limiter::check_batch`].
    ///
    /// # Errors
    /// Each element fails on its own.
    pub fn check_batch<'a, A: Into<Admission<'a>>>(
        self,
        batch: impl IntoIterator<Item = A>,
    ) -> Vec<Result<Decision>> {
        let now = self.0.clock.now();
        batch.into_iter().map(|one| self.decide(&one.into(), now)).collect()
    }

    /// [`Limiter::peek`].
    ///
    /// # Errors
    /// As [`Limiter::peek`].
    pub fn peek<'a>(self, charges: impl Into<Admission<'a>>) -> Result<Decision> {
        let admission = charges.into();
        let charges = admission.charges();
        not_empty(charges)?;
        peek::peeked(charges, self.0.store.load_sync(charges, self.0.clock.now()))
    }

    /// [`Limiter::forecast`].
    ///
    /// # Errors
    /// As [`Limiter::forecast`].
    pub fn forecast<'a>(self, charges: impl Into<Admission<'a>>) -> Result<Forecast> {
        let admission = charges.into();
        let charges = admission.charges();
        not_empty(charges)?;
        peek::forecasted(charges, self.0.store.load_sync(charges, self.0.clock.now()))
    }

    /// [`Limiter::settle`].
    ///
    /// # Errors
    /// As [`Limiter::settle`].
    pub fn settle<'a>(self, settlements: impl Into<Admission<'a>>) -> Result<Settled> {
        let admission = settlements.into();
        only_settlements(admission.charges())?;
        self.admit(&admission, self.0.clock.now()).map(Derived::settled)
    }

    /// [`Limiter::refund`].
    ///
    /// # Errors
    /// As [`Limiter::refund`].
    pub fn refund<'a>(self, refunds: impl Into<Admission<'a>>) -> Result<Settled> {
        let admission = refunds.into();
        only_refunds(admission.charges())?;
        self.settle(admission)
    }

    /// [`Limiter::reset`].
    ///
    /// # Errors
    /// `invalid_request` for no charges at all.
    pub fn reset<'a>(self, charges: impl Into<Admission<'a>>) -> Result<()> {
        let admission = charges.into();
        not_empty(admission.charges())?;
        admission.charges().iter().for_each(|charge| self.0.store.reset_sync(charge.key()));
        Ok(())
    }

    #[inline(always)]
    fn decide(self, admission: &Admission<'_>, now: Micros) -> Result<Decision> {
        match admission.single_charge() {
            Some(charge) => self.0.store.check_sync(&charge, now),
            None => self.admit(admission, now).map(|derived| derived.decision),
        }
    }

    fn admit(self, admission: &Admission<'_>, now: Micros) -> Result<Derived> {
        not_empty(admission.charges())?;
        derive::derive(admission, &self.0.store.admit_sync(admission, now)?)
    }
}
