//! How much of its ceiling a key owes, in a few bits: what eviction goes by.
//!
//! The instant at which a key is fresh again says how much a schedule owes, but nothing of a
//! window, which ends when it ends however much was spent in it.

/// Quarters of the ceiling that are owed, rounded down; four when not one unit is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fill(u8);

impl Fill {
    /// Less than a quarter is owed.
    pub(super) const LITTLE: Self = Self(0);
    /// Half of the ceiling.
    pub(super) const HALF: Self = Self(2);
    /// Not one unit is left.
    pub(super) const THROTTLED: Self = Self(4);

    /// `owed` of `ceiling` units.
    pub(super) fn of(owed: u64, ceiling: u64) -> Self {
        if owed >= ceiling {
            return Self::THROTTLED;
        }
        let quarters = u128::from(owed) * 4 / u128::from(ceiling);
        Self(u8::try_from(quarters).unwrap_or(3))
    }

    /// As three bits of a control word.
    pub(super) const fn bits(self) -> u64 {
        self.0 as u64
    }

    /// From three bits of a control word.
    pub(super) fn from_bits(bits: u64) -> Self {
        Self(u8::try_from(bits & 0b111).unwrap_or(0).min(4))
    }
}
