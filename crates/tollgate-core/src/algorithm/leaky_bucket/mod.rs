//! `leaky_bucket`: a shaper that lets R units per period P through and queues up to Q more.
//!
//! The mathematics, the state and the rounding are those of the schedule with T = P/R and
//! B = Q + 1: one unit passes at once, Q wait their turn. An allowed decision says how long to wait
//! before proceeding: `delay` = a − n, rounded up to a millisecond so that no request is early.

use super::schedule::{Fields, Schedule, ScheduleKind};
use super::{Kind, QuotaFields};
use crate::error::Result;
use crate::quota::Quota;

const FIELDS: Fields = Fields { limit: "rate", period: "period", burst: "queue", beside_burst: 1 };

/// A queue that drains at a steady rate; decisions carry the delay until a request's turn.
pub type LeakyBucket = Schedule<LeakyBucketKind>;

/// The kind of a [`LeakyBucket`].
#[derive(Debug)]
pub enum LeakyBucketKind {}

impl ScheduleKind for LeakyBucketKind {
    const KIND: Kind = Kind::LeakyBucket;
    const IS_SHAPED: bool = true;
}

impl LeakyBucket {
    pub(super) const FIELDS: QuotaFields =
        QuotaFields::rate("rate").whole("queue", 0, "how many may wait; 0 when absent");

    pub(super) fn from_fields(rate: Quota, queue: Option<u64>) -> Result<Self> {
        Self::new(rate, queue.unwrap_or(0))
    }

    /// `rate.limit` units per period leave the bucket, `queue` more may wait in it.
    ///
    /// # Errors
    /// `config_invalid` naming the field, with the nearest accepted value.
    pub fn new(rate: Quota, queue: u64) -> Result<Self> {
        Self::of(rate, queue, FIELDS)
    }
}
