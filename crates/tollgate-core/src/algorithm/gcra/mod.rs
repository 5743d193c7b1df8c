//! `gcra`: L units per period P, up to B at once; the generic cell rate algorithm.
//!
//! The mathematics, the state and the rounding are those of the schedule with T = P/L and
//! B = burst, which is L unless another burst is set.

use super::schedule::{Fields, Schedule, ScheduleKind};
use super::{Kind, QuotaFields};
use crate::error::Result;
use crate::quota::Quota;

const FIELDS: Fields = Fields { limit: "limit", period: "period", burst: "burst", beside_burst: 0 };

/// L units per period, evenly spaced in the long run, up to a burst at once.
pub type Gcra = Schedule<GcraKind>;

/// The kind of a [`Gcra`].
#[derive(Debug)]
pub enum GcraKind {}

impl ScheduleKind for GcraKind {
    const KIND: Kind = Kind::Gcra;
}

impl Gcra {
    pub(super) const FIELDS: QuotaFields = QuotaFields::rate("limit").whole(
        "burst",
        1,
        "units at once; as many as the limit when absent",
    );

    pub(super) fn from_fields(quota: Quota, burst: Option<u64>) -> Result<Self> {
        Self::with_burst(quota, burst.unwrap_or(quota.limit))
    }

    /// `quota.limit` units per period, all of them at once if the key is fresh.
    ///
    /// # Errors
    /// `config_invalid` naming the field, with the nearest accepted value.
    pub fn new(quota: Quota) -> Result<Self> {
        Self::with_burst(quota, quota.limit)
    }

    /// `quota.limit` units per period, at most `burst` at once.
    ///
    /// # Errors
    /// `config_invalid` naming the field, with the nearest accepted value.
    pub fn with_burst(quota: Quota, burst: u64) -> Result<Self> {
        Self::of(quota, burst, FIELDS)
    }
}
