//! The status as JSON.

use serde::Serialize;
use tollgate::Limit;
use tollgate::store::PolicyUsage;

use super::history::{Percentiles, Sample};
use crate::activity::{Counted, Denial};
use crate::telemetry::KeyRedaction;

/// Everything that `GET /v1/status` answers.
#[derive(Serialize)]
pub(super) struct StatusJson {
    pub(super) version: &'static str,
    pub(super) now_ms: u64,
    pub(super) started_ms: u64,
    /// Resident memory of the process, where the operating system reports it.
    pub(super) resident_bytes: Option<u64>,
    pub(super) keys_are_hashed: bool,
    pub(super) store: StoreJson,
    pub(super) policies: Vec<PolicyJson>,
    pub(super) changes: Vec<ChangeJson>,
    pub(super) samples: Vec<SampleJson>,
}

#[derive(Serialize)]
pub(super) struct StoreJson {
    pub(super) kind: String,
    pub(super) in_process: bool,
    /// Why no decision can be made with it, if none can.
    pub(super) problem: Option<String>,
    pub(super) calls: u64,
    pub(super) calls_failed: u64,
    pub(super) breaker_rejections: u64,
    pub(super) round_trips: u64,
}

/// A policy: totals since the start of the server, and keys of the last minutes.
#[derive(Default, Serialize)]
pub(super) struct PolicyJson {
    pub(super) policy: String,
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) degraded: u64,
    pub(super) errors: u64,
    pub(super) memory: Option<MemoryJson>,
    pub(super) denied_by: Vec<DeniedByJson>,
    pub(super) throttled: TopJson,
    pub(super) spenders: TopJson,
    pub(super) denials: Vec<DenialJson>,
}

/// What a policy has in the memory store.
#[derive(Default, Serialize)]
pub(super) struct MemoryJson {
    keys: usize,
    max_keys: usize,
    bytes: usize,
}

/// A limit that denied.
#[derive(Serialize)]
pub(super) struct DeniedByJson {
    pub(super) limit: String,
    pub(super) denied: u64,
}

/// The keys with the largest totals.
#[derive(Default, Serialize)]
pub(super) struct TopJson {
    /// One unit in this many is counted.
    pub(super) sampled_one_in: u64,
    pub(super) keys: Vec<KeyJson>,
}

#[derive(Serialize)]
pub(super) struct KeyJson {
    key: String,
    count: u64,
    error: u64,
}

#[derive(Serialize)]
pub(super) struct DenialJson {
    at_ms: u64,
    key: String,
    limit: Option<String>,
    cost: u64,
    retry_after_ms: Option<u64>,
    times: u64,
}

#[derive(Serialize)]
pub(super) struct ChangeJson {
    pub(super) at_ms: u64,
    pub(super) text: String,
}

#[derive(Serialize)]
pub(super) struct SampleJson {
    at_ms: u64,
    span_ms: u64,
    requests_us: PercentilesJson,
    calls_us: PercentilesJson,
    calls_failed: u64,
    policies: Vec<CountsJson>,
}

#[derive(Serialize)]
struct PercentilesJson {
    p50: Option<u64>,
    p99: Option<u64>,
}

#[derive(Serialize)]
struct CountsJson {
    policy: String,
    allowed: u64,
    denied: u64,
    degraded: u64,
    errors: u64,
}

impl MemoryJson {
    /// The sum over the limits of a policy; `None` for a store that is not in memory.
    pub(super) fn of(usage: &[PolicyUsage], limits: &[&Limit]) -> Option<Self> {
        let is_of = |one: &&PolicyUsage| limits.iter().any(|limit| *limit.policy() == one.policy);
        let of_limits = usage.iter().filter(is_of);
        of_limits.fold(None, |sum: Option<Self>, one| {
            let Self { keys, max_keys, bytes } = sum.unwrap_or_default();
            Some(Self {
                keys: keys + one.keys,
                max_keys: max_keys + one.max_keys,
                bytes: bytes + one.bytes,
            })
        })
    }
}

impl KeyJson {
    pub(super) fn new((key, counted): (&str, Counted), redaction: &KeyRedaction) -> Self {
        let Counted { count, error } = counted;
        Self { key: redaction.in_logs(key), count, error }
    }
}

impl DenialJson {
    pub(super) fn new(denial: &Denial, redaction: &KeyRedaction) -> Self {
        let &Denial { at_ms, cost, retry_after_ms, times, .. } = denial;
        let limit = denial.limit.as_ref().map(ToString::to_string);
        let key = redaction.in_logs(&denial.key);
        Self { at_ms, key, limit, cost, retry_after_ms, times }
    }
}

impl From<&Sample> for SampleJson {
    fn from(sample: &Sample) -> Self {
        let policies = sample.policies.iter().map(|(policy, totals)| CountsJson {
            policy: policy.to_string(),
            allowed: totals.allowed,
            denied: totals.denied,
            degraded: totals.degraded,
            errors: totals.errors,
        });
        Self {
            at_ms: sample.at_ms,
            span_ms: sample.span_ms,
            requests_us: sample.requests_us.into(),
            calls_us: sample.calls_us.into(),
            calls_failed: sample.calls_failed,
            policies: policies.collect(),
        }
    }
}

impl From<Percentiles> for PercentilesJson {
    fn from(Percentiles { p50, p99 }: Percentiles) -> Self {
        Self { p50, p99 }
    }
}
