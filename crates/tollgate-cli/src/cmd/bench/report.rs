//! What a load showed, in words and as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::args::{Bench, Protocol};
use super::tally::Tally;

/// Percentiles that are told, in tenths of a percent.
const PERCENTILES: [(&str, f64); 6] = [
    ("p50", 50.0),
    ("p90", 90.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("p99.99", 99.99),
    ("max", 100.0),
];

/// Whether the limit was kept.
#[derive(Debug)]
pub(super) enum Kept {
    /// What each key may have been granted at most, the most that one was granted, and their sum.
    Checked { keys: u64, may_admit: u64, most: u64, units: u64 },
    /// Why nothing can be said.
    Unknown(String),
}

impl Kept {
    /// Whether more was admitted than may be.
    pub(super) const fn broken(&self) -> bool {
        matches!(self, Self::Checked { may_admit, most, .. } if *most > *may_admit)
    }
}

/// Everything that is told.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) bench: &'a Bench,
    pub(super) protocol: Protocol,
    pub(super) tally: Tally,
    pub(super) due: u64,
    pub(super) sent: u64,
    pub(super) took: Duration,
    pub(super) kept: Kept,
}

impl Report<'_> {
    fn protocol(&self) -> &'static str {
        match self.protocol {
            Protocol::Http => "http",
            Protocol::Grpc => "grpc",
            Protocol::Resp => "resp",
        }
    }

    fn per_second(&self) -> u64 {
        let millis = self.took.as_millis().max(1);
        let rate = u128::from(self.tally.decided()) * 1_000 / millis;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    fn latencies(&self) -> Vec<(&'static str, u64)> {
        let latency = &self.tally.latency;
        PERCENTILES.iter().map(|(name, at)| (*name, latency.value_at_percentile(*at))).collect()
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let Tally { allowed, denied, never, degraded, errors, .. } = &self.tally;
        let latency: serde_json::Map<String, Value> =
            self.latencies().into_iter().map(|(name, at)| (name.to_owned(), at.into())).collect();
        let quota = match &self.kept {
            Kept::Checked { keys, may_admit, most, units } => json!({
                "checked": true, "holds": !self.kept.broken(), "keys": keys,
                "may_admit_per_key": may_admit, "most_admitted_of_a_key": most, "admitted": units,
            }),
            Kept::Unknown(why) => json!({"checked": false, "why": why}),
        };
        json!({
            "protocol": self.protocol(), "rate": self.bench.rate,
            "duration_ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "connections": self.bench.connections, "policy": self.bench.policy,
            "due": self.due, "sent": self.sent, "decided": self.tally.decided(),
            "decided_per_second": self.per_second(),
            "allowed": allowed, "denied": denied, "never": never, "degraded": degraded,
            "errors": errors, "latency_us": latency, "quota": quota,
        })
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let Tally { allowed, denied, never, degraded, errors, .. } = &self.tally;
        let mut lines = vec![
            format!(
                "{} requests were due over {}, {} were sent; {} decided, {} per second",
                self.due,
                self.protocol(),
                self.sent,
                self.tally.decided(),
                self.per_second()
            ),
            format!(
                "allowed {allowed}, denied {denied}, never {never}, without the store {degraded}"
            ),
        ];
        lines.extend(errors.iter().map(|(why, count)| format!("not decided {count}: {why}")));
        if self.tally.decided() > 0 {
            lines.push("latency, from when a request was due to its answer:".to_owned());
            let line = |(name, micros): (&str, u64)| format!("  {name:<7}{:>12}", spoken(micros));
            lines.extend(self.latencies().into_iter().map(line));
        }
        if self.sent < self.due {
            let not_sent = self.due - self.sent;
            lines.push(format!("{not_sent} were not sent in time: the server, or this machine, did not keep up, and the latencies above leave them out"));
        }
        lines.push(self.verdict());
        lines.join("\n")
    }

    fn verdict(&self) -> String {
        match &self.kept {
            Kept::Unknown(why) => format!("quota: not checked: {why}"),
            Kept::Checked { keys, may_admit, most, units } => {
                let kept = if self.kept.broken() { "BROKEN" } else { "kept" };
                let those = if *keys == 1 {
                    format!("{units} units were admitted, {may_admit} may have been")
                } else {
                    format!(
                        "{units} units were admitted on {keys} keys, at most {most} on one, where {may_admit} may have been"
                    )
                };
                format!("quota: {kept}: {those}")
            }
        }
    }
}

/// Microseconds as people read them.
pub(super) fn spoken(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{}.{:02} ms", micros / 1_000, micros % 1_000 / 10),
        _ => format!("{}.{:02} s", micros / 1_000_000, micros % 1_000_000 / 10_000),
    }
}
