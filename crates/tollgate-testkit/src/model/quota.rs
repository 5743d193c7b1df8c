//! What a model is made of: the numbers of a limit as people write them.

use core::time::Duration;

use tollgate_core::algorithm::{
    Anchor, FixedWindow, Gcra, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket,
};
use tollgate_core::{Micros, Quota, Result, Rule};

pub use tollgate_core::algorithm::Kind;

/// The numbers of a limit, as people write them. Lengths of time are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the words of the algorithms' own documentation")]
pub enum ModelQuota {
    /// `limit` units per period, `burst` at once.
    Gcra { limit: u64, period_us: Micros, burst: u64 },
    /// A bucket of `capacity`, refilled with `refill` per period.
    TokenBucket { capacity: u64, refill: u64, period_us: Micros },
    /// `rate` per period leave, `queue` may wait.
    LeakyBucket { rate: u64, period_us: Micros, queue: u64 },
    /// `limit` units per window.
    FixedWindow { limit: u64, window_us: Micros, anchor: Anchor },
    /// `limit` units per sliding window, estimated over buckets.
    SlidingWindow { limit: u64, window_us: Micros, buckets: u64 },
    /// `limit` units in any window, exactly.
    SlidingLog { limit: u64, window_us: Micros },
}

impl ModelQuota {
    /// One quota of every algorithm and variant, all with the same ceiling and period.
    #[must_use]
    pub const fn every_kind(limit: u64, period_us: Micros) -> [Self; 8] {
        let window_us = period_us;
        [
            Self::Gcra { limit, period_us, burst: limit },
            Self::TokenBucket { capacity: limit, refill: limit, period_us },
            Self::LeakyBucket { rate: limit, period_us, queue: limit - 1 },
            Self::FixedWindow { limit, window_us, anchor: Anchor::Epoch },
            Self::FixedWindow { limit, window_us, anchor: Anchor::FirstHit },
            Self::SlidingWindow { limit, window_us, buckets: 1 },
            Self::SlidingWindow { limit, window_us, buckets: 4 },
            Self::SlidingLog { limit, window_us },
        ]
    }

    /// The algorithm.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Gcra { .. } => Kind::Gcra,
            Self::TokenBucket { .. } => Kind::TokenBucket,
            Self::LeakyBucket { .. } => Kind::LeakyBucket,
            Self::FixedWindow { .. } => Kind::FixedWindow,
            Self::SlidingWindow { .. } => Kind::SlidingWindow,
            Self::SlidingLog { .. } => Kind::SlidingLog,
        }
    }

    /// The effective ceiling.
    #[must_use]
    pub const fn ceiling(&self) -> u64 {
        match *self {
            Self::Gcra { burst, .. } => burst,
            Self::TokenBucket { capacity, .. } => capacity,
            Self::LeakyBucket { queue, .. } => queue.saturating_add(1),
            Self::FixedWindow { limit, .. }
            | Self::SlidingWindow { limit, .. }
            | Self::SlidingLog { limit, .. } => limit,
        }
    }

    /// The algorithm under test with this quota.
    ///
    /// # Errors
    /// `config_invalid` when the quota is outside of what Tollgate accepts.
    pub fn rule(&self) -> Result<Rule> {
        let per = |limit, micros| Quota::new(limit, Duration::from_micros(micros));
        Ok(match *self {
            Self::Gcra { limit, period_us, burst } => {
                Rule::new(Gcra::with_burst(per(limit, period_us), burst)?)
            }
            Self::TokenBucket { capacity, refill, period_us } => {
                Rule::new(TokenBucket::new(capacity, per(refill, period_us))?)
            }
            Self::LeakyBucket { rate, period_us, queue } => {
                Rule::new(LeakyBucket::new(per(rate, period_us), queue)?)
            }
            Self::FixedWindow { limit, window_us, anchor } => {
                Rule::new(FixedWindow::new(per(limit, window_us), anchor)?)
            }
            Self::SlidingWindow { limit, window_us, buckets } => {
                Rule::new(SlidingWindow::with_buckets(per(limit, window_us), buckets)?)
            }
            Self::SlidingLog { limit, window_us } => {
                Rule::new(SlidingLog::new(per(limit, window_us))?)
            }
        })
    }

    /// Whether both mean the same: 2 per 2 s is 1 per second, but another algorithm is another
    /// quota.
    #[must_use]
    pub fn means_the_same(&self, other: &Self) -> bool {
        match (self.rate(), other.rate()) {
            (Some((units, period)), Some((other_units, other_period))) => {
                self.kind() == other.kind()
                    && self.ceiling() == other.ceiling()
                    && u128::from(units) * u128::from(other_period)
                        == u128::from(other_units) * u128::from(period)
            }
            // Windows count units: what was counted means the same under another limit.
            _ => self.with_limit(1) == other.with_limit(1),
        }
    }

    /// The same window with another limit; schedules stay as they are.
    const fn with_limit(&self, limit: u64) -> Self {
        match *self {
            Self::FixedWindow { window_us, anchor, .. } => {
                Self::FixedWindow { limit, window_us, anchor }
            }
            Self::SlidingWindow { window_us, buckets, .. } => {
                Self::SlidingWindow { limit, window_us, buckets }
            }
            Self::SlidingLog { window_us, .. } => Self::SlidingLog { limit, window_us },
            Self::Gcra { .. } | Self::TokenBucket { .. } | Self::LeakyBucket { .. } => *self,
        }
    }

    /// Units per microseconds, for the algorithms that are a schedule.
    pub(crate) const fn rate(&self) -> Option<(u64, Micros)> {
        match *self {
            Self::Gcra { limit, period_us, .. } => Some((limit, period_us)),
            Self::TokenBucket { refill, period_us, .. } => Some((refill, period_us)),
            Self::LeakyBucket { rate, period_us, .. } => Some((rate, period_us)),
            Self::FixedWindow { .. } | Self::SlidingWindow { .. } | Self::SlidingLog { .. } => None,
        }
    }
}
