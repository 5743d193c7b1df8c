//! The result of a load, as text and as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::args::{Bench, Protocol};
use super::totals::Totals;

/// The percentiles of the report.
const PERCENTILES: [(&str, f64); 6] = [
    ("p50", 50.0),
    ("p90", 90.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("p99.99", 99.99),
    ("max", 100.0),
];

/// Whether no more than the limit was admitted.
#[derive(Debug)]
pub(super) enum Verification {
    /// The bound of each key, the most units that one key was granted, and the sum of all keys.
    Done { keys: u64, bound: u64, most: u64, units: u64 },
    /// Why the result could not be verified.
    Skipped(String),
}

impl Verification {
    /// Whether more was admitted than the limit grants.
    pub(super) const fn failed(&self) -> bool {
        matches!(self, Self::Done { bound, most, .. } if *most > *bound)
    }
}

/// The result of a load.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) bench: &'a Bench,
    pub(super) protocol: Protocol,
    pub(super) totals: Totals,
    pub(super) due: u64,
    pub(super) sent: u64,
    pub(super) took: Duration,
    pub(super) verification: Verification,
}

impl Report<'_> {
    fn per_second(&self) -> u64 {
        let millis = self.took.as_millis().max(1);
        let rate = u128::from(self.totals.decided()) * 1_000 / millis;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    fn latencies(&self) -> Vec<(&'static str, u64)> {
        let latency = &self.totals.latency;
        PERCENTILES.iter().map(|(name, at)| (*name, latency.value_at_percentile(*at))).collect()
    }

    /// The report as JSON.
    pub(super) fn json(&self) -> Value {
        let Totals { allowed, denied, never, degraded, errors, .. } = &self.totals;
        let latency: serde_json::Map<String, Value> =
            self.latencies().into_iter().map(|(name, at)| (name.to_owned(), at.into())).collect();
        let quota = match &self.verification {
            Verification::Done { keys, bound, most, units } => json!({
                "checked": true, "holds": !self.verification.failed(), "keys": keys,
                "may_admit_per_key": bound, "most_admitted_of_a_key": most, "admitted": units,
            }),
            Verification::Skipped(reason) => json!({"checked": false, "why": reason}),
        };
        json!({
            "protocol": self.protocol.as_str(), "rate": self.bench.rate,
            "duration_ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "connections": self.bench.connections, "policy": self.bench.policy,
            "due": self.due, "sent": self.sent, "decided": self.totals.decided(),
            "decided_per_second": self.per_second(),
            "allowed": allowed, "denied": denied, "never": never, "degraded": degraded,
            "errors": errors, "latency_us": latency, "quota": quota,
        })
    }

    /// The report as text.
    pub(super) fn text(&self) -> String {
        let Totals { allowed, denied, never, degraded, errors, .. } = &self.totals;
        let mut lines = vec![
            format!(
                "{} requests were due over {}, {} were sent; {} decided, {} per second",
                self.due,
                self.protocol.as_str(),
                self.sent,
                self.totals.decided(),
                self.per_second()
            ),
            format!(
                "allowed {allowed}, denied {denied}, never {never}, without the store {degraded}"
            ),
        ];
        lines.extend(errors.iter().map(|(reason, count)| format!("not decided {count}: {reason}")));
        if self.totals.decided() > 0 {
            lines.push("latency, from the instant a request was due to its response:".to_owned());
            let line = |(name, micros): (&str, u64)| format!("  {name:<7}{:>12}", describe(micros));
            lines.extend(self.latencies().into_iter().map(line));
        }
        if self.sent < self.due {
            let not_sent = self.due - self.sent;
            lines.push(format!(
                "{not_sent} were not sent in time: the server or this machine is too slow for the \
                 rate; the latencies above exclude them"
            ));
        }
        lines.push(self.verified());
        lines.join("\n")
    }

    fn verified(&self) -> String {
        match &self.verification {
            Verification::Skipped(reason) => format!("quota: not verified: {reason}"),
            Verification::Done { keys, bound, most, units } => {
                let result = if self.verification.failed() { "EXCEEDED" } else { "kept" };
                let admitted = if *keys == 1 {
                    format!("{units} units were admitted, at most {bound} are allowed")
                } else {
                    format!(
                        "{units} units were admitted on {keys} keys, {most} of them on one key, \
                         where at most {bound} are allowed"
                    )
                };
                format!("quota: {result}: {admitted}")
            }
        }
    }
}

/// Microseconds with a unit.
pub(super) fn describe(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{}.{:02} ms", micros / 1_000, micros % 1_000 / 10),
        _ => format!("{}.{:02} s", micros / 1_000_000, micros % 1_000_000 / 10_000),
    }
}
