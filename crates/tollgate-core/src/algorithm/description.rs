//! A quota in numbers, for programs that show it or compute with it.

use super::Anchor;
use crate::time::Micros;

/// What an algorithm grants, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The effective ceiling: burst, capacity or window quota.
    pub ceiling: u64,
    /// Units granted per `period` in the long run; in lowest terms for a schedule.
    pub units: u64,
    /// The period, or the window.
    pub period: Micros,
    /// How spent units come back.
    pub renewal: Renewal,
    /// Whether an allowed request may have to wait for its turn.
    pub shaped: bool,
}

impl Description {
    /// `units` per `period`, at most `ceiling` at once.
    #[must_use]
    pub const fn new(ceiling: u64, units: u64, period: Micros, renewal: Renewal) -> Self {
        Self { ceiling, units, period, renewal, shaped: false }
    }

    /// The same quota of a shaper.
    #[must_use]
    pub const fn shaped(mut self, shaped: bool) -> Self {
        self.shaped = shaped;
        self
    }
}

/// How spent units come back. Programs match on all variants: a new one does not compile until each
/// of them handles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// One by one, at a steady rate.
    Steady,
    /// All at once, at the end of a window that starts at this anchor.
    Window(Anchor),
    /// With the buckets of a sliding window, which start at multiples of their length since the
    /// epoch.
    Buckets(u64),
    /// Each charge on its own, one window after it was made.
    Rolling,
    /// Not stated: the algorithm of a user.
    Unstated,
}

impl Renewal {
    /// The stable text of the variant.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Window(_) => "window",
            Self::Buckets(_) => "buckets",
            Self::Rolling => "rolling",
            Self::Unstated => "unstated",
        }
    }
}
