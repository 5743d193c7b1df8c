//! How many units a request asks for.

use core::fmt;
use core::num::NonZeroU32;

use crate::error::{Error, Result};

/// Units asked for: a whole number from 1 to 4,294,967,295.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(NonZeroU32);

impl Cost {
    /// The cost of an ordinary request.
    pub const ONE: Self = Self(NonZeroU32::MIN);
    /// The largest cost that can be asked for.
    pub const MAX: Self = Self(NonZeroU32::MAX);

    /// Accepts a cost between 1 and [`Cost::MAX`].
    ///
    /// # Errors
    /// `invalid_request` naming the field `cost` when it is 0 or too large.
    pub fn new(units: u64) -> Result<Self> {
        u32::try_from(units).ok().and_then(NonZeroU32::new).map(Self).ok_or_else(|| {
            Error::invalid("cost", format!("{units} is out of range; accepted: 1 to {}", u32::MAX))
        })
    }

    /// The units as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get() as u64
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::ONE
    }
}

impl From<NonZeroU32> for Cost {
    fn from(units: NonZeroU32) -> Self {
        Self(units)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
