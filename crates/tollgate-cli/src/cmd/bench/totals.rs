//! Results of the requests of one connection, or of all.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use tollgate_proto::tollgate_v1::Verdict;

use super::connection::Outcome;
use crate::cmd::Failed;

/// Significant digits of a latency.
const DIGITS: u8 = 3;

/// Counts and latencies.
#[derive(Clone, Debug)]
pub(super) struct Totals {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) never: u64,
    /// Decisions that were made without the store.
    pub(super) degraded: u64,
    /// Requests without a decision, by reason.
    pub(super) errors: BTreeMap<String, u64>,
    /// Microseconds from the instant at which a request was due to its response.
    pub(super) latency: Histogram<u64>,
}

impl Totals {
    pub(super) fn new() -> Result<Self, Failed> {
        let latency = Histogram::new(DIGITS)?;
        let errors = BTreeMap::new();
        Ok(Self { allowed: 0, denied: 0, never: 0, degraded: 0, errors, latency })
    }

    /// Counts a decision that was received `took` after its request was due.
    pub(super) fn decided_after(&mut self, outcome: Outcome, took: Duration) {
        match outcome.verdict {
            Verdict::Allowed => self.allowed += 1,
            Verdict::Denied => self.denied += 1,
            Verdict::Never | Verdict::Unspecified => self.never += 1,
        }
        self.degraded += u64::from(outcome.degraded);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.latency.saturating_record(micros.max(1));
    }

    /// Counts a request without a decision.
    pub(super) fn failed(&mut self, reason: String) {
        *self.errors.entry(reason).or_default() += 1;
    }

    /// Requests with a decision.
    pub(super) const fn decided(&self) -> u64 {
        self.allowed + self.denied + self.never
    }

    /// Requests without a decision.
    pub(super) fn undecided(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Adds the results of another connection.
    pub(super) fn add(&mut self, other: &Self) -> Result<(), Failed> {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.never += other.never;
        self.degraded += other.degraded;
        for (reason, count) in &other.errors {
            *self.errors.entry(reason.clone()).or_default() += count;
        }
        Ok(self.latency.add(&other.latency)?)
    }
}
