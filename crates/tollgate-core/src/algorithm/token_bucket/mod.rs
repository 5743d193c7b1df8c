//! `token_bucket`: a bucket of C tokens, refilled with R per period P.
//!
//! The mathematics, the state and the rounding are those of the schedule with T = P/R and B = C:
//! an empty bucket is a schedule whose full debt is ahead. There is no tick: a fraction of a token
//! that has trickled in is never lost and never counted twice.

use super::schedule::{Fields, Schedule, ScheduleKind};
use super::{Kind, QuotaFields};
use crate::error::Result;
use crate::quota::Quota;

const FIELDS: Fields =
    Fields { limit: "refill", period: "period", burst: "capacity", beside_burst: 0 };

/// A bucket of tokens, full at first, refilled at a steady rate.
pub type TokenBucket = Schedule<TokenBucketKind>;

/// The kind of a [`TokenBucket`].
#[derive(Debug)]
pub enum TokenBucketKind {}

impl ScheduleKind for TokenBucketKind {
    const KIND: Kind = Kind::TokenBucket;
}

impl TokenBucket {
    pub(super) const FIELDS: QuotaFields = QuotaFields::rate("refill").whole(
        "capacity",
        1,
        "units at most; as many as the refill when absent",
    );

    pub(super) fn from_fields(refill: Quota, capacity: Option<u64>) -> Result<Self> {
        Self::new(capacity.unwrap_or(refill.limit), refill)
    }

    /// A bucket of `capacity` tokens, refilled with `refill.limit` per period.
    ///
    /// # Errors
    /// `config_invalid` naming the field, with the nearest accepted value.
    pub fn new(capacity: u64, refill: Quota) -> Result<Self> {
        Self::of(refill, capacity, FIELDS)
    }
}
