//! What became of the requests of one connection, and of all.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use tollgate_proto::tollgate_v1::Verdict;

use super::wire::Answer;
use crate::cmd::Failed;

/// Three digits of every latency count.
const DIGITS: u8 = 3;

/// Counts and latencies.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) never: u64,
    /// Of the answers, those that were decided without the store.
    pub(super) degraded: u64,
    /// Requests without a decision, by why.
    pub(super) errors: BTreeMap<String, u64>,
    /// Microseconds from when requests were due to when they were answered.
    pub(super) latency: Histogram<u64>,
}

impl Tally {
    pub(super) fn new() -> Result<Self, Failed> {
        let latency = Histogram::new(DIGITS)?;
        let errors = BTreeMap::new();
        Ok(Self { allowed: 0, denied: 0, never: 0, degraded: 0, errors, latency })
    }

    /// Counts an answer that came so long after its request was due.
    pub(super) fn answered(&mut self, answer: Answer, took: Duration) {
        match answer.verdict {
            Verdict::Allowed => self.allowed += 1,
            Verdict::Denied => self.denied += 1,
            Verdict::Never | Verdict::Unspecified => self.never += 1,
        }
        self.degraded += u64::from(answer.degraded);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.latency.saturating_record(micros.max(1));
    }

    /// Counts a request that got no decision.
    pub(super) fn failed(&mut self, why: String) {
        *self.errors.entry(why).or_default() += 1;
    }

    /// Requests that were decided.
    pub(super) const fn decided(&self) -> u64 {
        self.allowed + self.denied + self.never
    }

    /// Requests that were not.
    pub(super) fn undecided(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Adds what another connection has seen.
    pub(super) fn add(&mut self, other: &Self) -> Result<(), Failed> {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.never += other.never;
        self.degraded += other.degraded;
        for (why, count) in &other.errors {
            *self.errors.entry(why.clone()).or_default() += count;
        }
        Ok(self.latency.add(&other.latency)?)
    }
}
