//! The same without waiting, over stores that never wait. Limited to them by type.

use super::{Combined, Limiter, Refunded, combine, look, not_empty};
use crate::charge::{Admission, Charge, Limit, Receipt};
use crate::decision::{Decision, Forecast};
use crate::error::Result;
use crate::store::SyncStore;

impl<S: SyncStore> Limiter<S> {
    /// Decides one charge without waiting; equal to [`Limiter::check`] decision by decision.
    ///
    /// # Errors
    /// `corrupt_state` when the key holds the state of an unknown algorithm.
    #[inline]
    pub fn check_sync(&self, charge: Charge<'_>) -> Result<Decision> {
        self.store.check_sync(&charge, self.clock.now())
    }

    /// [`Limiter::check_all`] without waiting.
    ///
    /// # Errors
    /// As [`Limiter::check_all`].
    pub fn check_all_sync(&self, admission: &Admission<'_>) -> Result<Decision> {
        self.check_parts_sync(admission).map(|combined| combined.decision)
    }

    /// [`Limiter::check_parts`] without waiting.
    ///
    /// # Errors
    /// As [`Limiter::check_all`].
    pub fn check_parts_sync(&self, admission: &Admission<'_>) -> Result<Combined> {
        not_empty(admission.charges)?;
        let outcome = self.store.admit_sync(admission, self.clock.now())?;
        combine::derive(admission, &outcome)
    }

    /// [`Limiter::peek`] without waiting.
    ///
    /// # Errors
    /// As [`Limiter::peek`].
    pub fn peek_sync(&self, charge: Charge<'_>) -> Result<Decision> {
        look::peeked(&[charge], self.store.load_sync(&[charge], self.clock.now()))
    }

    /// [`Limiter::forecast`] without waiting.
    ///
    /// # Errors
    /// As [`Limiter::forecast`].
    pub fn forecast_sync(&self, limit: &Limit, subject: &str) -> Result<Forecast> {
        let charges = [limit.charge(subject)];
        look::forecasted(&charges, self.store.load_sync(&charges, self.clock.now()))
    }

    /// [`Limiter::refund`] without waiting.
    ///
    /// # Errors
    /// As [`Limiter::refund`].
    pub fn refund_sync(&self, charge: Charge<'_>, receipt: Receipt) -> Result<Refunded> {
        let charges = [charge.refund(receipt)];
        let admission = Admission::of(&charges);
        let outcome = self.store.admit_sync(&admission, self.clock.now())?;
        combine::derive(&admission, &outcome).map(Refunded::from)
    }

    /// [`Limiter::reset`] without waiting.
    pub fn reset_sync(&self, limit: &Limit, subject: &str) {
        self.store.reset_sync(limit.key(subject));
    }
}
