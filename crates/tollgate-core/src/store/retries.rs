//! How often an admission that lost a race is run again, and the waits between: one value for all
//! stores.

use core::time::Duration;

use crate::error::{Error, Result};
use crate::time::Micros;

/// More attempts than any deadline leaves time for.
const RETRIES_MAX: u32 = 1_000_000;
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// How often an admission that lost a race is run again, and how long it waits before.
///
/// By default 10 times; the first wait is random and up to 2 ms, the bound doubles with each loss
/// and ends at 100 ms. Callers that lost together must not come back together, hence the randomness
/// ("full jitter").
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::store::Retries;
///
/// let retries = Retries::default().max_retries(50).max_backoff(Duration::from_millis(20));
/// assert!(retries.validated().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    max_retries: u32,
    base_backoff: Duration,
    max_backoff: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            // Ten losses in a row, with the waits between them, are well beyond any deadline of a
            // check.
            max_retries: 10,
            base_backoff: Duration::from_millis(2),
            max_backoff: Duration::from_millis(100),
        }
    }
}

impl Retries {
    /// How often it is run again.
    #[must_use]
    pub const fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// The longest wait after the first loss; doubles with each further one.
    #[must_use]
    pub const fn base_backoff(mut self, wait: Duration) -> Self {
        self.base_backoff = wait;
        self
    }

    /// The longest wait after any loss, also after the first.
    #[must_use]
    pub const fn max_backoff(mut self, wait: Duration) -> Self {
        self.max_backoff = wait;
        self
    }

    /// These settings, if they make sense.
    ///
    /// # Errors
    /// `config_invalid` naming `max_retries`, `base_backoff` or `max_backoff`, and what is
    /// accepted.
    pub fn validated(self) -> Result<Self> {
        if self.max_retries > RETRIES_MAX {
            let accepted = format!("is {}; accepted: 0 to {RETRIES_MAX}", self.max_retries);
            return Err(Error::config("max_retries", accepted));
        }
        for (field, wait) in
            [("base_backoff", self.base_backoff), ("max_backoff", self.max_backoff)]
        {
            if wait > WAIT_MAX {
                return Err(Error::config(field, "is longer than an hour; accepted: 0 to 1 hour"));
            }
        }
        Ok(self)
    }

    /// Whether a caller that has lost this often must give up.
    #[must_use]
    pub const fn is_exhausted(&self, losses: u32) -> bool {
        losses > self.max_retries
    }

    /// How long to wait after this many losses: a part of base × 2^(losses − 1), and of the longest
    /// wait, chosen by a number that is random in all its bits.
    #[must_use]
    pub fn wait(&self, losses: u32, random: u64) -> Micros {
        let doublings = losses.saturating_sub(1).min(63);
        let bound = micros(self.base_backoff) << doublings;
        let bound = bound.min(micros(self.max_backoff)) + 1;
        // The high half of a 64×64-bit product: uniform below `bound`, without a division.
        u64::try_from((u128::from(random) * bound) >> 64).unwrap_or(u64::MAX)
    }
}

/// At most 2^64, so that neither 63 doublings nor a product with a random number overflow.
fn micros(wait: Duration) -> u128 {
    wait.as_micros().min(u64::MAX.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn waits_stay_within_bounds_that_double_up_to_the_longest() {
        let retries = Retries::default();
        for losses in 0..80_u32 {
            let doubled = 2_000_u128 << losses.saturating_sub(1);
            let bound = u64::try_from(doubled.min(100_000)).unwrap();
            assert_eq!(retries.wait(losses, u64::MAX), bound, "{losses}");
            assert_eq!(retries.wait(losses, u64::MAX / 2), bound / 2, "{losses}");
            assert_eq!(retries.wait(losses, 0), 0);
        }
        let no_wait = retries.base_backoff(Duration::from_secs(1)).max_backoff(Duration::ZERO);
        assert_eq!(no_wait.wait(1, u64::MAX), 0, "the longest wait bounds the first, too");
        let endless = retries.base_backoff(Duration::MAX).max_backoff(Duration::MAX);
        assert!(endless.wait(u32::MAX, u64::MAX) > 1 << 62);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let fine = Retries::default();
        let long = Duration::from_secs(3_601);
        for (wrong, field) in [
            (fine.max_retries(1_000_001), "max_retries"),
            (fine.base_backoff(long), "base_backoff"),
            (fine.max_backoff(long), "max_backoff"),
        ] {
            let error = wrong.validated().unwrap_err();
            assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some(field)));
        }
        assert_eq!(fine.validated().unwrap(), fine);
    }
}
