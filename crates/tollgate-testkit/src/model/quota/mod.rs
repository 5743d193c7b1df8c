//! The numbers of a limit as people write them: the registration of the algorithms in this crate.
//!
//! Each algorithm is one variant of [`ModelQuota`] and one arm of each match below, and its
//! mathematics a file of this folder. Text form, random quotas, golden vectors, properties and the
//! conformance suite follow from here.

mod fixed_window;
mod schedule;
mod sliding_log;
mod sliding_window;

use core::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate_core::algorithm::Anchor;
use tollgate_core::{Micros, Quota, Result, Rule};

pub use tollgate_core::algorithm::Kind;

use super::{Bound, Mathematics};
use crate::rng::Rng;

use fixed_window::FixedWindow;
use schedule::Schedule;
use sliding_log::SlidingLog;
use sliding_window::SlidingWindow;

/// The numbers of a limit, as people write them. Lengths of time are in microseconds.
///
/// The names of variants and fields are the text form in golden vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "algorithm", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are the words of the algorithms' own documentation")]
pub enum ModelQuota {
    /// `limit` units per period, `burst` at once.
    Gcra { limit: u64, period_us: Micros, burst: u64 },
    /// A bucket of `capacity`, refilled with `refill` per period.
    TokenBucket { capacity: u64, refill: u64, period_us: Micros },
    /// `rate` per period leave, `queue` may wait.
    LeakyBucket { rate: u64, period_us: Micros, queue: u64 },
    /// `limit` units per window.
    FixedWindow {
        limit: u64,
        window_us: Micros,
        #[serde(with = "AnchorText")]
        anchor: Anchor,
    },
    /// `limit` units per sliding window, estimated over buckets.
    SlidingWindow { limit: u64, window_us: Micros, buckets: u64 },
    /// `limit` units in any window, exactly.
    SlidingLog { limit: u64, window_us: Micros },
}

/// The text form of an anchor.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Anchor", rename_all = "snake_case")]
enum AnchorText {
    Epoch,
    FirstHit,
}

/// What every algorithm has.
struct Numbers {
    kind: Kind,
    ceiling: u64,
    /// Units per microseconds.
    rate: (u64, Micros),
    /// The optional field.
    option: Option<u64>,
}

impl ModelQuota {
    /// A quota of an algorithm from its rate and one other number: the ceiling of a schedule, the
    /// anchor (odd for the first hit) or the buckets of a window. It may be one that is not
    /// accepted.
    #[must_use]
    pub fn new(kind: Kind, limit: u64, period_us: Micros, other: u64) -> Self {
        let window_us = period_us;
        match kind {
            Kind::Gcra => Self::Gcra { limit, period_us, burst: other },
            Kind::TokenBucket => Self::TokenBucket { capacity: other, refill: limit, period_us },
            Kind::LeakyBucket => {
                Self::LeakyBucket { rate: limit, period_us, queue: other.saturating_sub(1) }
            }
            Kind::FixedWindow => {
                let anchor = if other % 2 == 1 { Anchor::FirstHit } else { Anchor::Epoch };
                Self::FixedWindow { limit, window_us, anchor }
            }
            Kind::SlidingWindow => {
                // A window is a whole number of buckets.
                let buckets = other.max(1);
                let window_us = (window_us / buckets).max(1).saturating_mul(buckets);
                Self::SlidingWindow { limit, window_us, buckets }
            }
            Kind::SlidingLog => Self::SlidingLog { limit, window_us },
        }
    }

    /// One quota of every algorithm and variant, all with the same ceiling and period.
    #[must_use]
    pub fn every_kind(limit: u64, period_us: Micros) -> Vec<Self> {
        Kind::ALL.into_iter().flat_map(|kind| Self::of_kind(kind, limit, period_us)).collect()
    }

    /// A quota of each variant of an algorithm, all with this ceiling and period.
    #[must_use]
    pub fn of_kind(kind: Kind, limit: u64, period_us: Micros) -> Vec<Self> {
        let others = match kind {
            Kind::Gcra | Kind::TokenBucket | Kind::LeakyBucket => vec![limit],
            Kind::FixedWindow => vec![0, 1],
            Kind::SlidingWindow => vec![1, 4],
            Kind::SlidingLog => vec![0],
        };
        others.into_iter().map(|other| Self::new(kind, limit, period_us, other)).collect()
    }

    /// The quotas of the golden vectors for this rate, with names.
    pub(crate) fn variants(kind: Kind, limit: u64, period_us: Micros) -> Vec<(&'static str, Self)> {
        let others = match kind {
            Kind::Gcra => vec![("", limit), (", burst 5", 5)],
            Kind::TokenBucket => vec![("", limit), (", capacity 10", 10)],
            Kind::LeakyBucket => vec![(", queue 4", 5), (", no queue", 1)],
            Kind::FixedWindow => vec![(", epoch", 0), (", first hit", 1)],
            Kind::SlidingWindow => vec![(", one bucket", 1), (", ten buckets", 10)],
            Kind::SlidingLog => vec![("", 0)],
        };
        let quota = |(name, other)| (name, Self::new(kind, limit, period_us, other));
        others.into_iter().map(quota).collect()
    }

    /// A random quota with this rate. It may be one that is not accepted.
    pub(crate) fn random(kind: Kind, limit: u64, period_us: Micros, rng: &mut Rng) -> Self {
        let burst = match rng.below(4) {
            0 => rng.of_any_size(limit.saturating_mul(2)),
            1 => rng.between(1, 20),
            _ => limit,
        };
        let other = match kind {
            Kind::Gcra | Kind::TokenBucket | Kind::LeakyBucket => burst,
            Kind::FixedWindow => rng.pick(&[0, 1], 0),
            Kind::SlidingWindow => {
                rng.pick(&[1, 1, 2, 3, 7, 10, 60, rng.clone().between(1, 60)], 1)
            }
            Kind::SlidingLog => 0,
        };
        Self::new(kind, limit, period_us, other)
    }

    const fn numbers(&self) -> Numbers {
        let (kind, ceiling, rate, option) = match *self {
            Self::Gcra { limit, period_us, burst } => {
                (Kind::Gcra, burst, (limit, period_us), Some(burst))
            }
            Self::TokenBucket { capacity, refill, period_us } => {
                (Kind::TokenBucket, capacity, (refill, period_us), Some(capacity))
            }
            Self::LeakyBucket { rate, period_us, queue } => {
                (Kind::LeakyBucket, queue.saturating_add(1), (rate, period_us), Some(queue))
            }
            Self::FixedWindow { limit, window_us, anchor } => {
                (Kind::FixedWindow, limit, (limit, window_us), Some(anchor as u64))
            }
            Self::SlidingWindow { limit, window_us, buckets } => {
                (Kind::SlidingWindow, limit, (limit, window_us), Some(buckets))
            }
            Self::SlidingLog { limit, window_us } => {
                (Kind::SlidingLog, limit, (limit, window_us), None)
            }
        };
        Numbers { kind, ceiling, rate, option }
    }

    /// The algorithm.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.numbers().kind
    }

    /// The effective ceiling.
    #[must_use]
    pub const fn ceiling(&self) -> u64 {
        self.numbers().ceiling
    }

    /// Units per microseconds: of the period, or of the window.
    pub(crate) const fn rate(&self) -> (u64, Micros) {
        self.numbers().rate
    }

    /// The algorithm under test with this quota.
    ///
    /// # Errors
    /// `config_invalid` when the quota is outside of what Tollgate accepts.
    pub fn rule(&self) -> Result<Rule> {
        let Numbers { kind, rate: (units, period_us), option, .. } = self.numbers();
        kind.build(Quota::new(units, Duration::from_micros(period_us)), option)
    }

    /// The mathematics of a fresh key.
    pub(super) fn fresh(&self) -> Box<dyn Mathematics> {
        match *self {
            Self::Gcra { .. } | Self::TokenBucket { .. } => {
                Box::new(Schedule::new(self.rate(), self.ceiling(), false))
            }
            Self::LeakyBucket { .. } => Box::new(Schedule::new(self.rate(), self.ceiling(), true)),
            Self::FixedWindow { limit, window_us, anchor } => {
                Box::new(FixedWindow::new(limit, window_us, anchor))
            }
            Self::SlidingWindow { limit, window_us, buckets } => {
                Box::new(SlidingWindow::new(limit, window_us, buckets))
            }
            Self::SlidingLog { limit, window_us } => Box::new(SlidingLog::new(limit, window_us)),
        }
    }

    /// The most that a key admits, however it is asked, from the first admission to the last.
    pub(crate) fn bound(&self, first: Micros, last: Micros) -> Bound {
        self.fresh().bound(first, last)
    }

    /// Whether both mean the same: 2 per 2 s is 1 per second, but another algorithm is another
    /// quota.
    #[must_use]
    pub fn means_the_same(&self, other: &Self) -> bool {
        let (one, two) = (self.numbers(), other.numbers());
        let ((units, period), (other_units, other_period)) = (one.rate, two.rate);
        one.kind == two.kind
            && one.option == two.option
            && if self.fresh().set_limit(1) {
                // What was counted means the same under another limit.
                period == other_period
            } else {
                u128::from(units) * u128::from(other_period)
                    == u128::from(other_units) * u128::from(period)
            }
    }
}
