//! Counters and histograms: decisions, errors, latencies, and the state of the store. Labels are
//! names of the configuration and fixed words, never keys, so the number of series is bounded.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Metric, Registry};
use tollgate::clock::ClockHealth;
use tollgate::limiter::Stats;
use tollgate::store::PolicyUsage;
use tollgate::{Code, Name};
use tollgate_service::Policies;
use tollgate_service::engine::{self, CheckRequest, CheckResponse};
use tollgate_service::policy::AD_HOC_POLICY;

use super::copied::{LimiterCounters, MemoryGauges, set};
use super::policy_metrics::PolicyMetrics;
use super::process::{ProcessGauges, set as set_gauge};
use super::protocol_times::ProtocolTimes;
use super::sharded::Histogram;

/// Seconds, from a check in memory to the timeout of a client.
const BUCKETS: [f64; 14] = [
    0.000_01, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 1.0,
];

/// The name and the value of a label.
type Label = (&'static str, &'static str);

/// Why a request may have no decision, although it was right.
pub(super) const FAILURES: [Code; 7] = [
    Code::StoreUnavailable,
    Code::Timeout,
    Code::ConflictExhausted,
    Code::QueueFull,
    Code::StoreFull,
    Code::CorruptState,
    Code::ConfigInvalid,
];
/// Why a request may be refused because of its caller.
const REFUSALS: [Code; 6] = [
    Code::Unauthorized,
    Code::Forbidden,
    Code::InvalidRequest,
    Code::UnknownPolicy,
    Code::IdempotencyConflict,
    Code::Unsupported,
];
/// The results of calls to a store besides the codes of [`FAILURES`].
pub(super) const ANSWERED: &str = "answered";
pub(super) const CANCELLED: &str = "cancelled";

/// All metrics of a server.
pub(crate) struct Metrics {
    registry: Registry,
    policies: PolicyMetrics,
    refunds: Family<OutcomeLabels, Counter>,
    settlements: Family<OutcomeLabels, Counter>,
    resets: Family<OutcomeLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    requests: Family<[Label; 1], Histogram, fn() -> Histogram>,
    by_protocol: ProtocolTimes,
    store_calls: Family<[Label; 2], Counter>,
    store_admissions: Counter,
    store_seconds: Family<[Label; 1], Histogram, fn() -> Histogram>,
    store_lost_commits: Counter,
    reloads: Family<[Label; 1], Counter>,
    closed: Family<[Label; 2], Counter>,
    authentication_failures: Family<[Label; 1], Counter>,
    refused: Family<[Label; 2], Counter>,
    store_round_trips: Counter,
    store_forgotten_ids: Counter,
    limiter: LimiterCounters,
    memory: MemoryGauges,
    process: ProcessGauges,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ErrorLabels {
    code: &'static str,
    policy: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    policy: String,
    outcome: &'static str,
}

impl OutcomeLabels {
    fn new(policy: &str, outcome: &'static str) -> Self {
        Self { policy: policy.to_owned(), outcome }
    }
}

impl Metrics {
    /// Counters that start at zero.
    pub(crate) fn new() -> Self {
        let mut metrics = Self::unregistered();
        metrics.register();
        for result in ["applied", "refused"] {
            let _zero = metrics.reloads.get_or_create(&[("result", result)]);
        }
        metrics
    }

    fn unregistered() -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(&BUCKETS);
        Self {
            registry: Registry::default(),
            policies: PolicyMetrics::default(),
            refunds: Family::default(),
            settlements: Family::default(),
            resets: Family::default(),
            errors: Family::default(),
            requests: Family::new_with_constructor(seconds),
            by_protocol: ProtocolTimes::default(),
            store_calls: Family::default(),
            store_admissions: Counter::default(),
            store_seconds: Family::new_with_constructor(seconds),
            store_lost_commits: Counter::default(),
            reloads: Family::default(),
            closed: Family::default(),
            authentication_failures: Family::default(),
            refused: Family::default(),
            store_round_trips: Counter::default(),
            store_forgotten_ids: Counter::default(),
            limiter: LimiterCounters::default(),
            memory: MemoryGauges::default(),
            process: ProcessGauges::default(),
        }
    }

    /// Registers every metric; the rows of the table for the documentation.
    fn register(&mut self) -> Vec<String> {
        // Every field is named: one that is not registered is an unused variable.
        let Self {
            registry,
            policies,
            refunds,
            settlements,
            resets,
            errors,
            requests,
            by_protocol: _,
            store_calls,
            store_admissions,
            store_seconds,
            store_lost_commits,
            reloads,
            closed,
            authentication_failures,
            refused,
            store_round_trips,
            store_forgotten_ids,
            limiter,
            memory,
            process,
        } = self;
        let mut register = Registration { registry, rows: Vec::new() };
        policies.register(&mut register);
        let labels = "`policy`, `outcome`";
        let help = "Refunds, by what came of them";
        register.add("tollgate_refunds", labels, help, refunds);
        let help = "Final costs of charges, by what came of them";
        register.add("tollgate_settlements", labels, help, settlements);
        let help = "Resets of keys, by what came of them";
        register.add("tollgate_resets", labels, help, resets);
        let help = "Requests without a decision, by code; the policy is empty if none was found";
        register.add("tollgate_errors", "`code`, `policy`", help, errors);
        let help = "Duration of requests, from decoding to encoding";
        let name = "tollgate_request_duration_seconds";
        register.add(name, "`protocol`", help, requests);
        let help =
            "Calls to the store: answered, cancelled by the caller, or the code of the error";
        register.add("tollgate_store_calls", "`store`, `result`", help, store_calls);
        let help = "Admissions sent to the store";
        register.add("tollgate_store_admissions", "", help, store_admissions);
        let help = "Round trips of the store to its server; admissions per round trip is the \
                    combining factor";
        register.add("tollgate_store_round_trips", "", help, store_round_trips);
        let help = "Request ids that this process made the store forget before they expired";
        register.add("tollgate_store_forgotten_request_ids", "", help, store_forgotten_ids);
        let help = "Duration of calls to the store";
        register.add("tollgate_store_duration_seconds", "`store`", help, store_seconds);
        let help = "Commits that a damaged log of SQLite has lost";
        register.add("tollgate_store_lost_commits", "", help, store_lost_commits);
        let help = "Reloads of the configuration, by result";
        register.add("tollgate_reloads", "`result`", help, reloads);
        register.add_clients(closed, authentication_failures, refused);
        limiter.register(&mut register);
        memory.register(&mut register);
        process.register(&mut register);
        register.rows
    }

    /// Counts a decision or a failure.
    pub(crate) fn decided(
        &self,
        request: &CheckRequest<'_>,
        result: &engine::Result<CheckResponse>,
    ) {
        match result {
            Ok(response) => self.policies.decided(request, response),
            Err(failure) => self.failed(failure.error.code(), failure.policy.as_ref()),
        }
    }

    /// Counts a refund under a policy, which is empty if none is known.
    pub(crate) fn refunded(&self, policy: &str, outcome: &'static str) {
        self.refunds.get_or_create(&OutcomeLabels::new(policy, outcome)).inc();
    }

    /// Counts a settlement under a policy, which is empty if none is known.
    pub(crate) fn settled(&self, policy: &str, outcome: &'static str) {
        self.settlements.get_or_create(&OutcomeLabels::new(policy, outcome)).inc();
    }

    /// Counts a reset under a policy.
    pub(crate) fn reset(&self, policy: &str, outcome: &'static str) {
        self.resets.get_or_create(&OutcomeLabels::new(policy, outcome)).inc();
    }

    /// Counts a request that could not be decided, under its policy if one was found.
    pub(crate) fn failed(&self, code: Code, policy: Option<&Name>) {
        let policy = policy.map_or_else(String::new, Name::to_string);
        self.errors.get_or_create(&ErrorLabels { code: code.as_str(), policy }).inc();
    }

    /// Finds the counters of policies, and starts at zero those that are to raise an alert.
    pub(crate) fn add_policies(&self, policies: &Policies) {
        self.policies.add_policies(policies);
        let names = policies.iter().map(|policy| policy.name().as_str()).chain([AD_HOC_POLICY]);
        for (name, code) in names.flat_map(|name| FAILURES.map(|code| (name, code))) {
            let labels = ErrorLabels { code: code.as_str(), policy: name.to_owned() };
            let _zero = self.errors.get_or_create(&labels);
        }
    }

    /// Starts the counters of a store at zero.
    pub(crate) fn add_store(&self, store: &'static str) {
        for result in FAILURES.iter().map(|code| code.as_str()).chain([ANSWERED, CANCELLED]) {
            let _zero = self.store_calls.get_or_create(&[("store", store), ("result", result)]);
        }
    }

    /// Records the duration of a request of a protocol.
    pub(crate) fn request(&self, protocol: &'static str, took: Duration) {
        let find = || self.requests.get_or_create_owned(&[("protocol", protocol)]);
        self.by_protocol.observe(protocol, took, find);
    }

    /// Records a call to the store.
    pub(super) fn call(
        &self,
        store: &'static str,
        result: &'static str,
        admissions: u64,
        took: Duration,
    ) {
        // A caller that has left says nothing about how long the store takes.
        if result != CANCELLED {
            self.store_seconds.get_or_create(&[("store", store)]).observe(took);
        }
        self.store_calls.get_or_create(&[("store", store), ("result", result)]).inc();
        self.store_admissions.inc_by(admissions);
    }

    /// Starts the counters of a listener at zero.
    pub(crate) fn add_listener(&self, protocol: &'static str, reasons: &[&'static str]) {
        let _zero = self.authentication_failures.get_or_create(&[("protocol", protocol)]);
        for code in REFUSALS {
            let labels = [("protocol", protocol), ("code", code.as_str())];
            let _zero = self.refused.get_or_create(&labels);
        }
        for reason in reasons {
            let _zero = self.closed.get_or_create(&[("protocol", protocol), ("reason", reason)]);
        }
    }

    /// Counts a connection of a protocol that the server closed.
    pub(crate) fn closed(&self, protocol: &'static str, reason: &'static str) {
        self.closed.get_or_create(&[("protocol", protocol), ("reason", reason)]).inc();
    }

    /// Counts a failed attempt to authenticate.
    pub(crate) fn authentication_failed(&self, protocol: &'static str) {
        self.authentication_failures.get_or_create(&[("protocol", protocol)]).inc();
    }

    /// Counts a request that was refused because of its caller; other codes are ignored.
    pub(crate) fn refused(&self, protocol: &'static str, code: Code) {
        if REFUSALS.contains(&code) {
            self.refused.get_or_create(&[("protocol", protocol), ("code", code.as_str())]).inc();
        }
    }

    /// Sets how many files of the configuration are missing.
    pub(crate) fn missing_files(&self, files: usize) {
        set_gauge(&self.process.missing_files, u64::try_from(files).unwrap_or(u64::MAX));
    }

    /// Sets how many settings need a restart.
    pub(crate) fn awaiting_restart(&self, settings: usize) {
        set_gauge(&self.process.awaiting_restart, u64::try_from(settings).unwrap_or(u64::MAX));
    }

    /// Counts commits that a store has lost.
    pub(crate) fn lost_commits(&self, commits: u64) {
        self.store_lost_commits.inc_by(commits);
    }

    /// Counts a reload of the configuration.
    pub(crate) fn reloaded(&self, result: &'static str) {
        self.reloads.get_or_create(&[("result", result)]).inc();
    }

    /// All metrics in the OpenMetrics text format.
    pub(crate) fn text(
        &self,
        stats: Stats,
        clock: ClockHealth,
        (round_trips, forgotten_ids): (Option<u64>, u64),
        usage: &[PolicyUsage],
    ) -> String {
        self.limiter.copy(stats, clock);
        self.memory.copy(usage);
        self.process.copy();
        set(&self.store_round_trips, round_trips.unwrap_or_default());
        set(&self.store_forgotten_ids, forgotten_ids);
        let mut text = String::new();
        // Writing to memory does not fail.
        let _never = encode(&mut text, &self.registry);
        text
    }
}

/// The only way to a registry, so that a metric without a row in the documentation does not exist.
pub(super) struct Registration<'a> {
    registry: &'a mut Registry,
    rows: Vec<String>,
}

impl Registration<'_> {
    /// What listeners count of their clients.
    fn add_clients(
        &mut self,
        closed: &Family<[Label; 2], Counter>,
        authentication_failures: &Family<[Label; 1], Counter>,
        refused: &Family<[Label; 2], Counter>,
    ) {
        let help = "Connections that the server closed, by reason";
        let name = "tollgate_connections_closed";
        self.add(name, "`protocol`, `reason`", help, closed);
        let help = "Requests without a token that is needed, or with an unknown one";
        let name = "tollgate_authentication_failures";
        self.add(name, "`protocol`", help, authentication_failures);
        let help = "Requests that were refused because of their caller, by code";
        self.add("tollgate_refused_requests", "`protocol`, `code`", help, refused);
    }

    pub(super) fn add<M: Metric + TypedMetric + Clone>(
        &mut self,
        name: &str,
        labels: &str,
        help: &str,
        metric: &M,
    ) {
        let suffix = if matches!(M::TYPE, MetricType::Counter) { "_total" } else { "" };
        self.rows.push(format!("| `{name}{suffix}` | {labels} | {help} |\n"));
        self.registry.register(name, help, metric.clone());
    }
}

/// The table of metrics for the documentation, in Markdown.
#[must_use]
pub fn metrics_table() -> String {
    let rows = Metrics::unregistered().register().concat();
    format!("| metric | labels | meaning |\n|---|---|---|\n{rows}")
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
