//! What the metrics say at an instant.
//!
//! The counters of the metrics are the only ones, and their library hands them out as text alone:
//! so this reads the text that `/metrics` returns. The names are those of the documentation, and a
//! name that is missing there fails a test here.

use std::collections::BTreeMap;
use std::time::Duration;

/// Totals since the start of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) policies: BTreeMap<Box<str>, Totals>,
    /// Requests and calls to the store by how long they took.
    pub(super) requests: Latencies,
    pub(super) calls: Latencies,
    pub(super) calls_failed: u64,
    pub(super) round_trips: u64,
    pub(super) breaker_rejections: u64,
    /// 0 where the operating system does not report it.
    pub(super) resident_bytes: u64,
}

/// What was decided under a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) allowed: u64,
    /// Denied, or would have been without shadow mode; `never` included.
    pub(super) denied: u64,
    /// Of both those that were decided without the store.
    pub(super) degraded: u64,
    /// Requests that got no decision.
    pub(super) errors: u64,
}

/// How many took up to how many microseconds, cumulated; the last is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Latencies(BTreeMap<u64, u64>);

/// A line of the text: the name, the labels, and the value.
struct Line<'a> {
    name: &'a str,
    labels: &'a str,
    value: u64,
}

impl Reading {
    /// Reads the text of `/metrics`.
    pub(super) fn of_text(text: &str) -> Self {
        let mut reading = Self::default();
        for line in text.lines().filter_map(Line::of) {
            reading.add(&line);
        }
        reading
    }

    fn add(&mut self, line: &Line<'_>) {
        let value = line.value;
        match line.name {
            "tollgate_decisions_total" => {
                let Some(totals) = self.policy(line) else { return };
                match line.label("verdict") {
                    Some("allowed") => totals.allowed += value,
                    _ => totals.denied += value,
                }
                if line.label("degraded") != Some("no") {
                    totals.degraded += value;
                }
            }
            "tollgate_errors_total" => {
                if let Some(totals) = self.policy(line) {
                    totals.errors += value;
                }
            }
            "tollgate_request_duration_seconds_bucket" => self.requests.add(line),
            "tollgate_store_duration_seconds_bucket" => self.calls.add(line),
            "tollgate_store_calls_total" if !line.is_answered() => self.calls_failed += value,
            "tollgate_store_round_trips_total" => self.round_trips = value,
            "tollgate_breaker_rejections_total" => self.breaker_rejections = value,
            "process_resident_memory_bytes" => self.resident_bytes = value,
            _ => {}
        }
    }

    /// The policy of a line. Requests of which no policy is known are under the empty name.
    fn policy(&mut self, line: &Line<'_>) -> Option<&mut Totals> {
        Some(self.policies.entry(line.label("policy")?.into()).or_default())
    }
}

impl Totals {
    /// What has happened since an earlier reading.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            allowed: self.allowed.saturating_sub(earlier.allowed),
            denied: self.denied.saturating_sub(earlier.denied),
            degraded: self.degraded.saturating_sub(earlier.degraded),
            errors: self.errors.saturating_sub(earlier.errors),
        }
    }
}

impl Latencies {
    fn add(&mut self, line: &Line<'_>) {
        let within_us = match line.label("le") {
            Some("+Inf") => Some(u64::MAX),
            Some(seconds) => micros(seconds),
            None => None,
        };
        if let Some(within_us) = within_us {
            *self.0.entry(within_us).or_default() += line.value;
        }
    }

    /// What has happened since an earlier reading.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let before = |within_us: &u64| earlier.0.get(within_us).copied().unwrap_or_default();
        let since = |(within_us, count): (&u64, &u64)| {
            (*within_us, count.saturating_sub(before(within_us)))
        };
        Self(self.0.iter().map(since).collect())
    }

    pub(super) fn count(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(_, count)| *count)
    }

    /// The microseconds within which this many of a hundred ended, rounded up; in between two
    /// bounds they are taken to be spread evenly. Beyond the last bound it is the last bound.
    pub(super) fn percentile_us(&self, percent: u64) -> Option<u64> {
        let count = self.count();
        let rank = count.saturating_mul(percent).div_ceil(100).max(1);
        let (mut from_us, mut before) = (0, 0);
        for (within_us, cumulated) in &self.0 {
            if *within_us == u64::MAX {
                break;
            }
            if *cumulated >= rank {
                let (width, inside) = (within_us - from_us, cumulated.saturating_sub(before));
                let share = width.saturating_mul(rank - before).div_ceil(inside.max(1));
                return Some(from_us + share.min(width));
            }
            (from_us, before) = (*within_us, *cumulated);
        }
        (count > 0).then_some(from_us)
    }
}

impl<'a> Line<'a> {
    /// Of a text line; `None` for one without a value that is counted.
    fn of(line: &'a str) -> Option<Self> {
        let (series, value) = line.rsplit_once(' ')?;
        let value = value.parse().ok()?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        Some(Self { name, labels, value })
    }

    /// Whether a call to the store was answered, or its caller did not wait for that.
    fn is_answered(&self) -> bool {
        matches!(self.label("result"), Some("answered" | "cancelled"))
    }

    /// The value of a label. No value holds a quotation mark: all are names and fixed words.
    fn label(&self, name: &str) -> Option<&'a str> {
        let labels = self.labels.trim_end_matches('}').split(',');
        let value = labels.filter_map(|label| label.split_once('=')).find(|(of, _)| *of == name);
        Some(value?.1.trim_matches('"'))
    }
}

/// Seconds as microseconds.
fn micros(seconds: &str) -> Option<u64> {
    let seconds = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    // Bounds such as 0.000_01 have no exact binary form.
    let nanos = seconds.as_nanos().checked_add(500)?;
    u64::try_from(nanos / 1_000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# HELP tollgate_decisions Decisions.
# TYPE tollgate_decisions counter
tollgate_decisions_total{policy="a",verdict="allowed",degraded="no",shadow="no"} 5
tollgate_decisions_total{policy="a",verdict="denied",degraded="closed",shadow="no"} 2
tollgate_decisions_total{policy="a",verdict="never",degraded="no",shadow="no"} 1
tollgate_decisions_total{policy="b",verdict="allowed",degraded="open",shadow="no"} 7
tollgate_errors_total{code="timeout",policy="a"} 3
tollgate_errors_total{code="queue_full",policy="a"} 1
tollgate_errors_total{code="unauthorized",policy=""} 9
tollgate_request_duration_seconds_sum{protocol="http"} 0.5
tollgate_request_duration_seconds_bucket{le="0.00001",protocol="http"} 50
tollgate_request_duration_seconds_bucket{le="0.00005",protocol="http"} 90
tollgate_request_duration_seconds_bucket{le="+Inf",protocol="http"} 100
tollgate_request_duration_seconds_bucket{le="0.00001",protocol="resp"} 0
tollgate_request_duration_seconds_bucket{le="0.00005",protocol="resp"} 100
tollgate_request_duration_seconds_bucket{le="+Inf",protocol="resp"} 100
tollgate_store_calls_total{store="redis",result="answered"} 20
tollgate_store_calls_total{store="redis",result="timeout"} 4
tollgate_store_round_trips_total 11
tollgate_breaker_rejections_total 12
process_resident_memory_bytes 4096
# EOF
"#;

    #[test]
    fn totals_are_those_of_the_text() {
        let reading = Reading::of_text(TEXT);
        let of = |policy| reading.policies.get(policy).copied().unwrap();
        assert_eq!(of("a"), Totals { allowed: 5, denied: 3, degraded: 2, errors: 4 });
        assert_eq!(of("b"), Totals { allowed: 7, denied: 0, degraded: 7, errors: 0 });
        assert_eq!(of("").errors, 9);
        let later = Totals { allowed: 6, denied: 3, degraded: 2, errors: 4 };
        assert_eq!(later.since(&of("a")), Totals { allowed: 1, ..Totals::default() });
        assert_eq!((reading.calls_failed, reading.round_trips), (4, 11));
        assert_eq!((reading.breaker_rejections, reading.resident_bytes), (12, 4_096));
    }

    #[test]
    fn percentiles_are_spread_between_two_bounds() {
        let Reading { requests, calls, .. } = Reading::of_text(TEXT);
        assert_eq!(requests.count(), 200);
        assert_eq!(requests.percentile_us(25), Some(10));
        // The 100th is the 50th of 140 between 10 and 50 microseconds.
        assert_eq!(requests.percentile_us(50), Some(25));
        assert_eq!(requests.percentile_us(95), Some(50));
        assert_eq!(requests.percentile_us(99), Some(50), "beyond the last bound");
        assert_eq!(calls.percentile_us(50), None);
        let none = requests.since(&requests);
        assert_eq!((none.count(), none.percentile_us(50)), (0, None));
    }
}
