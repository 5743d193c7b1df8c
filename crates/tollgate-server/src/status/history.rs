//! The last hour, in samples of ten seconds.

use std::collections::{BTreeMap, VecDeque};

use super::reading::{Latencies, Reading, Totals};

/// How many seconds a sample has.
pub(super) const SAMPLE_SECONDS: u64 = 10;
/// The most samples that are kept.
const SAMPLES_MAX: usize = 360;

/// Samples that have ended, and where the one under way began.
#[derive(Debug)]
pub(super) struct History {
    samples: VecDeque<Sample>,
    begun_ms: u64,
    begun: Reading,
}

/// What happened during a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// When it began.
    pub(super) at_ms: u64,
    /// How long it was.
    pub(super) span_ms: u64,
    /// The policies under which something happened.
    pub(super) policies: BTreeMap<Box<str>, Totals>,
    pub(super) requests_us: Percentiles,
    pub(super) calls_us: Percentiles,
    pub(super) calls_failed: u64,
}

/// The median and the 99th percentile; absent when nothing happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Percentiles {
    pub(super) p50: Option<u64>,
    pub(super) p99: Option<u64>,
}

impl History {
    /// Without samples; the first begins now.
    pub(super) const fn new(now_ms: u64, reading: Reading) -> Self {
        Self { samples: VecDeque::new(), begun_ms: now_ms, begun: reading }
    }

    /// Ends the sample under way, and begins the next one.
    pub(super) fn end_sample(&mut self, now_ms: u64, reading: Reading) -> Sample {
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        let ended = self.under_way(now_ms, &reading);
        (self.begun_ms, self.begun) = (now_ms, reading);
        self.samples.push_back(ended.clone());
        ended
    }

    /// The sample under way.
    pub(super) fn under_way(&self, now_ms: u64, reading: &Reading) -> Sample {
        let mut policies = BTreeMap::new();
        for (name, totals) in &reading.policies {
            let since = totals.since(&self.begun.policies.get(name).copied().unwrap_or_default());
            if since != Totals::default() {
                policies.insert(name.clone(), since);
            }
        }
        let of = |now: &Latencies, then: &Latencies| {
            let since = now.since(then);
            Percentiles { p50: since.percentile_us(50), p99: since.percentile_us(99) }
        };
        Sample {
            at_ms: self.begun_ms,
            span_ms: now_ms.saturating_sub(self.begun_ms),
            policies,
            requests_us: of(&reading.requests, &self.begun.requests),
            calls_us: of(&reading.calls, &self.begun.calls),
            calls_failed: reading.calls_failed.saturating_sub(self.begun.calls_failed),
        }
    }

    /// The newest samples that have ended, at most this many, the oldest first.
    pub(super) fn newest(&self, most: usize) -> impl Iterator<Item = &Sample> {
        self.samples.iter().skip(self.samples.len().saturating_sub(most))
    }
}

impl Sample {
    /// The sum over all policies.
    pub(super) fn degraded(&self) -> u64 {
        self.policies.values().map(|totals| totals.degraded).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading after this many decisions under `p`.
    fn reading(allowed: u64) -> Reading {
        let mut reading = Reading::default();
        reading.policies.insert("p".into(), Totals { allowed, ..Totals::default() });
        reading.policies.insert("quiet".into(), Totals::default());
        reading
    }

    #[test]
    fn a_sample_holds_what_happened_during_it() {
        let mut history = History::new(1_000, reading(5));
        let under_way = history.under_way(3_000, &reading(7));
        assert_eq!((under_way.at_ms, under_way.span_ms), (1_000, 2_000));
        assert_eq!(under_way.policies.len(), 1);
        assert_eq!(under_way.policies.get("p").unwrap().allowed, 2);
        assert_eq!(history.end_sample(11_000, reading(9)).policies.get("p").unwrap().allowed, 4);
        assert_eq!(history.end_sample(21_000, reading(9)).policies.len(), 0);
        assert!(history.newest(1).map(|sample| sample.at_ms).eq([11_000]));
    }

    #[test]
    fn an_hour_is_kept() {
        let mut history = History::new(0, reading(0));
        for at in 1..1_000 {
            history.end_sample(10_000 * at, reading(at));
        }
        assert_eq!(history.newest(usize::MAX).count(), SAMPLES_MAX);
        let first = history.newest(usize::MAX).next().unwrap();
        assert_eq!(first.at_ms, 10_000 * (999 - 360));
    }
}
