//! The numbers of a limit: so many units per period.

use core::time::Duration;

/// So many units per period, as people speak of it. Algorithms check it when they are built.
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
