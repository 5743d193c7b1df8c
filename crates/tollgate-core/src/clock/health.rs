//! What a clock knows of its distance to the wall clock of its host.

use crate::time::Micros;

/// An offset above this is reported. Two processes within it differ by less than the slack of the
/// stores that decide by the clocks of their callers (60 s).
pub(super) const OFFSET_BOUND: Micros = 10_000_000;

/// How a clock stands to the wall clock of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClockHealth {
    /// By how much the clock is ahead after the last correction, in microseconds. It is slewed: a
    /// clock never goes back. What it was behind is corrected at once.
    pub ahead: Micros,
    /// How often the clock was found to be more than ten seconds away from the wall clock, in
    /// either direction.
    pub corrections: u64,
    /// The largest offset that a correction has found, in microseconds, in either direction.
    pub largest: Micros,
}

impl ClockHealth {
    /// A clock that is ahead of the wall clock by this number of microseconds.
    #[must_use]
    pub const fn ahead_by(ahead: Micros) -> Self {
        Self { ahead, corrections: 0, largest: ahead }
    }

    /// Whether the offset is too large for stores that decide by this clock.
    #[must_use]
    pub const fn is_out_of_bounds(&self) -> bool {
        self.ahead > OFFSET_BOUND
    }
}
