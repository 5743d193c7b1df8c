//! Counters and gauges that others keep: the limiter, the clock and the memory store. They are
//! copied when the metrics are read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tollgate::clock::ClockHealth;
use tollgate::limiter::Stats;
use tollgate::store::PolicyUsage;

use super::metrics::Registration;

/// What the memory store keeps, copied when the metrics are read.
#[derive(Debug, Default)]
pub(super) struct MemoryGauges {
    keys: Family<[(&'static str, String); 2], Gauge>,
    max_keys: Family<[(&'static str, String); 2], Gauge>,
    bytes: Family<[(&'static str, String); 2], Gauge>,
    refusals: Family<[(&'static str, String); 2], Counter>,
    ids: Family<[(&'static str, String); 2], Gauge>,
    max_ids: Family<[(&'static str, String); 2], Gauge>,
    forgotten_ids: Family<[(&'static str, String); 2], Counter>,
}

/// Counters of the limiter, copied when the metrics are read.
#[derive(Debug, Default)]
pub(super) struct LimiterCounters {
    store_failures: Counter,
    breaker_rejections: Counter,
    clock_behind: Counter,
    clock_corrections: Counter,
    clock_ahead: Gauge<f64, AtomicU64>,
}

impl LimiterCounters {
    pub(super) fn register(&self, register: &mut Registration<'_>) {
        let Self {
            store_failures,
            breaker_rejections,
            clock_behind,
            clock_corrections,
            clock_ahead,
        } = self;
        let help = "Calls that the store did not answer";
        register.add("tollgate_store_failures", "", help, store_failures);
        let help = "Calls that the breaker rejected while it was open";
        register.add("tollgate_breaker_rejections", "", help, breaker_rejections);
        let help = "Decisions on keys that a clock ahead of this one has charged";
        register.add("tollgate_clock_behind", "", help, clock_behind);
        let help = "How often the clock was found more than ten seconds away from the wall \
                    clock of its host";
        register.add("tollgate_clock_corrections", "", help, clock_corrections);
        let help = "By how much the clock is ahead of the wall clock of its host";
        register.add("tollgate_clock_ahead_seconds", "", help, clock_ahead);
    }

    pub(super) fn copy(&self, stats: Stats, clock: ClockHealth) {
        set(&self.store_failures, stats.store_failures);
        set(&self.breaker_rejections, stats.breaker_rejections);
        set(&self.clock_behind, stats.clock_behind);
        set(&self.clock_corrections, clock.corrections);
        self.clock_ahead.set(Duration::from_micros(clock.ahead).as_secs_f64());
    }
}

impl MemoryGauges {
    pub(super) fn register(&self, register: &mut Registration<'_>) {
        let Self { keys, max_keys, bytes, refusals, ids, max_ids, forgotten_ids } = self;
        let labels = "`prefix`, `policy`";
        let help = "Live keys in the memory store, with those that expired and were not replaced";
        register.add("tollgate_memory_keys", labels, help, keys);
        let help = "The bound on them: newcomers of a full policy take the place of other keys";
        register.add("tollgate_memory_max_keys", labels, help, max_keys);
        let help = "Bytes of the states and the request ids in the memory store";
        register.add("tollgate_memory_bytes", labels, help, bytes);
        let help = "How often the bound on bytes refused a table more lines, or a key a long state";
        register.add("tollgate_memory_refusals", labels, help, refusals);
        let help = "Request ids that the memory store keeps";
        register.add("tollgate_memory_request_ids", labels, help, ids);
        let help = "The bound on them";
        register.add("tollgate_memory_max_request_ids", labels, help, max_ids);
        let help = "Request ids that the memory store forgot before they expired";
        let name = "tollgate_memory_forgotten_request_ids";
        register.add(name, labels, help, forgotten_ids);
    }

    pub(super) fn copy(&self, usage: &[PolicyUsage]) {
        for policy in usage {
            let labels =
                [("prefix", policy.prefix.to_string()), ("policy", policy.policy.to_string())];
            let gauge = |family: &Family<_, Gauge>, value: usize| {
                family.get_or_create(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
            };
            gauge(&self.keys, policy.keys);
            gauge(&self.max_keys, policy.max_keys);
            gauge(&self.bytes, policy.bytes);
            gauge(&self.ids, policy.request_ids);
            gauge(&self.max_ids, policy.max_request_ids);
            set(&self.refusals.get_or_create(&labels), policy.memory_refusals);
            set(&self.forgotten_ids.get_or_create(&labels), policy.forgotten_request_ids);
        }
    }
}

/// Sets a counter to a total that is counted elsewhere.
pub(super) fn set(counter: &Counter, total: u64) {
    counter.inner().store(total, Relaxed);
}
