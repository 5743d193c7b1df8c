//! What settling came to.

use crate::decision::Decision;

/// What settling a charge did to its key.
///
/// Of the three at most two are not 0: units are given back, or charged and perhaps dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settlement {
    /// Units given back. A unit that had decayed in part, and of which the rest came back, counts
    /// as one.
    pub given_back: u64,
    /// Units charged beyond the cost.
    pub charged: u64,
    /// Units of the final cost that were not charged: the key owes as much as it may.
    pub dropped: u64,
}

impl Settlement {
    /// Nothing was given back or charged.
    pub const NOTHING: Self = Self { given_back: 0, charged: 0, dropped: 0 };

    /// Units were given back.
    #[must_use]
    pub const fn giving_back(units: u64) -> Self {
        Self { given_back: units, ..Self::NOTHING }
    }

    /// Units were charged beyond the cost, and others were not.
    #[must_use]
    pub const fn charging(charged: u64, dropped: u64) -> Self {
        Self { charged, dropped, ..Self::NOTHING }
    }
}

/// What [`Limiter::settle`](crate::Limiter::settle) did, and how the keys stand after it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settled {
    /// What became of each charge, in their order; under a request id the same at every replay.
    pub each: Vec<Settlement>,
    /// How the keys stand after it: allowed, with the numbers of a peek. A key in debt has nothing
    /// left; a peek says when it passes again.
    pub standing: Decision,
}
