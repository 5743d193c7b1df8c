//! The numbers of a limit: units per period.

use core::time::Duration;

/// Units per period. Algorithms check it when they are built.
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::{Limit, Quota};
///
/// assert_eq!(Quota::per_minute(90), Quota::new(90, Duration::from_secs(60)));
/// let error = Limit::gcra("api", Quota::per_second(0)).unwrap_err();
/// assert_eq!(error.field(), Some("limit"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Units per period.
    pub limit: u64,
    /// The period, of at least one microsecond.
    pub period: Duration,
}

impl Quota {
    /// `limit` units per `period`.
    #[must_use]
    pub const fn new(limit: u64, period: Duration) -> Self {
        Self { limit, period }
    }

    /// `limit` units per second.
    #[must_use]
    pub const fn per_second(limit: u64) -> Self {
        Self::new(limit, Duration::from_secs(1))
    }

    /// `limit` units per minute.
    #[must_use]
    pub const fn per_minute(limit: u64) -> Self {
        Self::new(limit, Duration::from_secs(60))
    }

    /// `limit` units per hour.
    #[must_use]
    pub const fn per_hour(limit: u64) -> Self {
        Self::new(limit, Duration::from_secs(3_600))
    }

    /// `limit` units per day of 24 hours.
    #[must_use]
    pub const fn per_day(limit: u64) -> Self {
        Self::new(limit, Duration::from_secs(86_400))
    }
}
