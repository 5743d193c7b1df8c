//! Results of the requests of one connection, or of all.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use tollgate_proto::tollgate_v1::Verdict;

use super::connection::Outcome;
use crate::cmd::Failed;

/// Significant digits of a latency.
const DIGITS: u8 = 3;
/// Longer latencies, in microseconds, count as this one: an hour.
const LONGEST: u64 = 3_600_000_000;

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
        let micros = u64::try_from(took.as_micros()).unwrap_or(LONGEST);
        // A histogram grows in `record` only; it refuses no value up to the longest.
        let _ = self.latency.record(micros.clamp(1, LONGEST));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_latencies_are_recorded_as_they_are() {
        let mut totals = Totals::new().unwrap();
        let allowed = Outcome { verdict: Verdict::Allowed, degraded: false };
        for millis in [1, 50, 5_000, 1 << 40] {
            totals.decided_after(allowed, Duration::from_millis(millis));
        }
        let at = |percentile| totals.latency.value_at_percentile(percentile);
        let (second, third, longest) = (at(50.0), at(75.0), at(100.0));
        assert!((49_900..=50_100).contains(&second), "{second}");
        assert!((4_990_000..=5_010_000).contains(&third), "{third}");
        assert!((LONGEST..=LONGEST / 999 * 1_000).contains(&longest), "{longest}");
    }
}
