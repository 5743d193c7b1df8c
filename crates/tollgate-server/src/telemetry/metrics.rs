//! Counters and histograms: decisions, errors, latencies, and the state of the store. Labels are
//! names of the configuration and fixed words, never keys, so the number of series is bounded.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Metric, Registry};
use tollgate::clock::ClockHealth;
use tollgate::limiter::Stats;
use tollgate::store::PolicyUsage;
use tollgate::{Code, Limit, Name, OutageMode, Verdict};
use tollgate_service::Policies;
use tollgate_service::engine::{self, CheckResponse};
use tollgate_service::policy::AD_HOC_POLICY;

use super::copied::{LimiterCounters, MemoryGauges, set};

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
/// The results of calls to a store besides the codes of [`FAILURES`].
pub(super) const ANSWERED: &str = "answered";
pub(super) const CANCELLED: &str = "cancelled";

/// All metrics of a server.
pub(crate) struct Metrics {
    registry: Registry,
    decisions: Family<DecisionLabels, Counter>,
    replays: Family<PolicyLabel, Counter>,
    refunds: Family<OutcomeLabels, Counter>,
    settlements: Family<OutcomeLabels, Counter>,
    resets: Family<OutcomeLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    requests: Family<[Label; 1], Histogram>,
    store_calls: Family<[Label; 2], Counter>,
    store_admissions: Counter,
    store_seconds: Family<[Label; 1], Histogram>,
    store_lost_commits: Counter,
    reloads: Family<[Label; 1], Counter>,
    closed: Family<[Label; 2], Counter>,
    authentication_failures: Family<[Label; 1], Counter>,
    store_round_trips: Counter,
    store_forgotten_ids: Counter,
    limiter: LimiterCounters,
    memory: MemoryGauges,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DecisionLabels {
    policy: String,
    verdict: &'static str,
    degraded: &'static str,
    shadow: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ErrorLabels {
    code: &'static str,
    policy: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PolicyLabel {
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
        let seconds = || Histogram::new(BUCKETS);
        Self {
            registry: Registry::default(),
            decisions: Family::default(),
            replays: Family::default(),
            refunds: Family::default(),
            settlements: Family::default(),
            resets: Family::default(),
            errors: Family::default(),
            requests: Family::new_with_constructor(seconds),
            store_calls: Family::default(),
            store_admissions: Counter::default(),
            store_seconds: Family::new_with_constructor(seconds),
            store_lost_commits: Counter::default(),
            reloads: Family::default(),
            closed: Family::default(),
            authentication_failures: Family::default(),
            store_round_trips: Counter::default(),
            store_forgotten_ids: Counter::default(),
            limiter: LimiterCounters::default(),
            memory: MemoryGauges::default(),
        }
    }

    /// Registers every metric; the rows of the table for the documentation.
    fn register(&mut self) -> Vec<String> {
        // Every field is named: one that is not registered is an unused variable.
        let Self {
            registry,
            decisions,
            replays,
            refunds,
            settlements,
            resets,
            errors,
            requests,
            store_calls,
            store_admissions,
            store_seconds,
            store_lost_commits,
            reloads,
            closed,
            authentication_failures,
            store_round_trips,
            store_forgotten_ids,
            limiter,
            memory,
        } = self;
        let mut register = Registration { registry, rows: Vec::new() };
        let labels = "`policy`, `verdict`, `degraded`, `shadow`";
        register.add("tollgate_decisions", labels, "Decisions", decisions);
        let help = "Answers that repeated an earlier one under its request id";
        register.add("tollgate_replays", "`policy`", help, replays);
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
        let help = "Connections that the server closed, by reason";
        let name = "tollgate_connections_closed";
        register.add(name, "`protocol`, `reason`", help, closed);
        let help = "Requests without a token that is needed, or with an unknown one";
        let name = "tollgate_authentication_failures";
        register.add(name, "`protocol`", help, authentication_failures);
        limiter.register(&mut register);
        memory.register(&mut register);
        register.rows
    }

    /// Counts a decision or a failure.
    pub(crate) fn decided(&self, result: &engine::Result<CheckResponse>) {
        match result {
            Ok(response) => {
                for one in std::iter::once(response).chain(&response.shadows) {
                    self.decision(one);
                }
            }
            Err(failure) => self.failed(failure.error.code(), failure.policy.as_ref()),
        }
    }

    fn decision(&self, response: &CheckResponse) {
        let decision = &response.decision;
        let labels = DecisionLabels {
            policy: response.policy.to_string(),
            verdict: response.shadow.unwrap_or(decision.verdict).as_str(),
            degraded: decision.degraded.map_or("no", |mode| mode.as_str()),
            shadow: if response.shadow.is_some() { "yes" } else { "no" },
        };
        self.decisions.get_or_create(&labels).inc();
        if decision.replayed {
            let label = PolicyLabel { policy: response.policy.to_string() };
            self.replays.get_or_create(&label).inc();
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

    /// Starts counters at zero that are to raise an alert: one that begins with its first event
    /// has no rate until the next.
    pub(crate) fn add_policies(&self, policies: &Policies) {
        for policy in policies.iter() {
            let modes = policy.limits().map(Limit::outage_mode);
            self.add_policy(policy.name().as_str(), modes, policy.is_shadow());
        }
        self.add_policy(AD_HOC_POLICY, [policies.ad_hoc().outage_mode()], false);
    }

    fn add_policy(&self, name: &str, modes: impl IntoIterator<Item = OutageMode>, shadow: bool) {
        let add = |degraded, verdict: Verdict, shadow| {
            let (policy, verdict) = (name.to_owned(), verdict.as_str());
            let labels = DecisionLabels { policy, verdict, degraded, shadow };
            let _zero = self.decisions.get_or_create(&labels);
        };
        let degraded = modes.into_iter().map(OutageMode::as_str);
        for degraded in degraded.chain(["no"]) {
            add(degraded, Verdict::Allowed, "no");
            add(degraded, Verdict::Denied, if shadow { "yes" } else { "no" });
        }
        for code in FAILURES {
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
        self.requests.get_or_create(&[("protocol", protocol)]).observe(took.as_secs_f64());
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
            let seconds = took.as_secs_f64();
            self.store_seconds.get_or_create(&[("store", store)]).observe(seconds);
        }
        self.store_calls.get_or_create(&[("store", store), ("result", result)]).inc();
        self.store_admissions.inc_by(admissions);
    }

    /// Starts the counters of a listener at zero.
    pub(crate) fn add_listener(&self, protocol: &'static str, reasons: &[&'static str]) {
        let _zero = self.authentication_failures.get_or_create(&[("protocol", protocol)]);
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
