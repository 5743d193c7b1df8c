//! Time as the algorithms see it: whole microseconds since the epoch.
//!
//! Nothing here reads a clock. A [`Now`] carries what the clock said and the floor below which the
//! store refuses to decide, so that a clock stepping back can never reopen what was forgotten.

use core::time::Duration;

/// Whole microseconds: an instant since the Unix epoch, or a length of time.
pub type Micros = u64;

/// The first instant that is out of range (in the year 2112): all arithmetic is exact below it.
pub const MICROS_MAX: Micros = 1 << 52;

pub(crate) const MICROS_PER_MS: u64 = 1_000;

/// The instant of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    reading: Micros,
    floor: Micros,
}

impl Now {
    /// The instant a clock read, with no floor. Readings past [`MICROS_MAX`] are held at its end.
    #[must_use]
    pub const fn at(reading: Micros) -> Self {
        Self { reading: if reading < MICROS_MAX { reading } else { MICROS_MAX - 1 }, floor: 0 }
    }

    /// The same reading, but never deciding earlier than `floor`.
    #[must_use]
    pub const fn not_before(self, floor: Micros) -> Self {
        Self { reading: self.reading, floor: if floor > self.floor { floor } else { self.floor } }
    }

    /// What the clock said: reported times are counted from here.
    #[must_use]
    pub const fn reading(self) -> Micros {
        self.reading
    }

    /// The instant to decide at: the later of the reading and the floor.
    #[must_use]
    pub const fn effective(self) -> Micros {
        if self.floor > self.reading { self.floor } else { self.reading }
    }
}

/// The millisecond, as the instants (after, until], that a receipt names by its end, rounded up.
pub(crate) const fn millisecond_before(end: Micros) -> (Micros, Micros) {
    let end = if end < 2 * MICROS_MAX { end } else { 2 * MICROS_MAX };
    let until = to_ms_up(end) * MICROS_PER_MS;
    (until.saturating_sub(MICROS_PER_MS), until)
}

/// A length of time, in whole microseconds.
pub(crate) fn micros_of(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}

/// Milliseconds that cover `micros`, rounded up.
pub(crate) const fn to_ms_up(micros: Micros) -> u64 {
    micros.div_ceil(MICROS_PER_MS)
}
