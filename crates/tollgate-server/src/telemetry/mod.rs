//! What operators see of a server: metrics, traces, and a log of decisions.

mod clock;
mod copied;
mod instrumented;
mod metrics;
mod policy_metrics;
mod process;
mod protocol_times;
mod redaction;
mod sharded;
mod traces;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use opentelemetry::Context;
use opentelemetry::context::FutureExt;
use tokio::time::Instant;
use tollgate::{Code, Error, Name, Result};
use tollgate_service::Policies;
use tollgate_service::engine::{
    self, CheckRequest, CheckResponse, EngineObserver, Failure, SettleResponse,
};

use tollgate_service::policy::PolicyChange;

use crate::activity::Activity;
use crate::config::Config;
use crate::status::Changes;

pub(crate) use clock::watch_clock;
pub(crate) use instrumented::Instrumented;
use metrics::FAILURES;
pub(crate) use metrics::Metrics;
pub use metrics::metrics_table;
pub use redaction::KeyRedaction;
pub(crate) use traces::{Traces, end};

/// How often events that a client can cause at will are logged.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// How many changes of a reload are logged, and how many the page names.
const LOGGED_MAX: usize = 100;
const NAMED_MAX: usize = 5;

/// Metrics, traces and the log of one server.
#[derive(Debug)]
pub(crate) struct Telemetry {
    pub(crate) metrics: Metrics,
    pub(crate) traces: Option<Traces>,
    pub(crate) activity: Activity,
    pub(crate) changes: Changes,
    pub(crate) redaction: ArcSwap<KeyRedaction>,
    failed_attempts: LimitedLog,
    refunds: LimitedLog,
    settlements: LimitedLog,
    resets: LimitedLog,
    /// One for each of [`FAILURES`].
    refusals: [LimitedLog; FAILURES.len()],
}

/// Events of which at most one per second is logged, with their number since the last line.
#[derive(Debug, Default)]
struct LimitedLog(Mutex<Unlogged>);

#[derive(Debug, Default)]
struct Unlogged {
    events: u64,
    logged: Option<Instant>,
}

impl LimitedLog {
    /// Counts an event; the number of events for a line, if one is due.
    fn count(&self) -> Option<u64> {
        let mut unlogged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unlogged.events += 1;
        let now = Instant::now();
        let is_due = unlogged.logged.is_none_or(|at| now.duration_since(at) >= LOG_INTERVAL);
        is_due.then(|| {
            unlogged.logged = Some(now);
            std::mem::take(&mut unlogged.events)
        })
    }
}

impl Telemetry {
    /// The telemetry of a configuration. Call this within a runtime.
    ///
    /// # Errors
    /// `config_invalid` naming `otlp_endpoint`.
    pub(crate) fn new(config: &Config) -> Result<Arc<Self>> {
        let traces = config.traces.as_ref().map(Traces::to_collector).transpose()?;
        let redaction = ArcSwap::from_pointee(config.log.keys.clone());
        Ok(Arc::new(Self {
            metrics: Metrics::new(),
            traces,
            activity: Activity::default(),
            changes: Changes::default(),
            redaction,
            failed_attempts: LimitedLog::default(),
            refunds: LimitedLog::default(),
            settlements: LimitedLog::default(),
            resets: LimitedLog::default(),
            refusals: Default::default(),
        }))
    }

    /// Counts a failed attempt to authenticate, and writes at most one line per second to the log.
    pub(crate) fn authentication_failed(&self, protocol: &'static str) {
        self.metrics.authentication_failed(protocol);
        if let Some(failed) = self.failed_attempts.count() {
            tracing::warn!(protocol, failed, "clients failed to authenticate");
        }
    }

    /// Answers a request of a protocol within its span, and records how long it took.
    pub(crate) async fn request<B>(
        &self,
        protocol: &'static str,
        span: Option<Context>,
        respond: impl Future<Output = hyper::Response<B>>,
    ) -> hyper::Response<B> {
        let start = Instant::now();
        let response = match span {
            None => respond.await,
            Some(span) => {
                let response = respond.with_context(span.clone()).await;
                traces::end_request(&span, response.status());
                response
            }
        };
        self.metrics.request(protocol, start.elapsed());
        response
    }

    /// Counts a result, and writes it to the log.
    fn record(&self, request: &CheckRequest<'_>, result: &engine::Result<CheckResponse>) {
        self.metrics.decided(request, result);
        if let Ok(response) = result {
            self.activity.decided(request, response);
        }
        match result {
            Ok(CheckResponse { policy, decision, shadow, .. }) => tracing::debug!(
                %policy,
                key = self.keys(request),
                cost = units(request),
                verdict = shadow.unwrap_or(decision.verdict).as_str(),
                remaining = decision.remaining,
                retry_after_ms = decision.retry_after_ms,
                degraded = decision.degraded.map(|mode| mode.as_str()),
                shadow = shadow.is_some(),
                replayed = decision.replayed,
                "decided"
            ),
            Err(Failure { error, policy, .. }) => {
                self.refused(policy.as_ref(), error);
                tracing::debug!(
                    key = self.keys(request),
                    code = error.code().as_str(),
                    field = error.field(),
                    "not decided"
                );
            }
        }
    }

    /// The keys of a request in a log, separated by commas.
    fn keys(&self, request: &CheckRequest<'_>) -> String {
        let redaction = self.redaction.load();
        let keys = request.charges().iter().map(|charge| redaction.in_logs(charge.key));
        keys.collect::<Vec<_>>().join(",")
    }

    /// A policy, and a key of it as logs have it.
    fn policy_and_key<'a>(
        &self,
        of: Option<(&'a Name, &str)>,
    ) -> (Option<&'a str>, Option<String>) {
        (
            of.map(|(policy, _)| policy.as_str()),
            of.map(|(_, key)| self.redaction.load().in_logs(key)),
        )
    }

    /// Writes at most one line per code and second about requests that were right and got no
    /// decision. Outages have a line of their own, with the reason.
    fn refused(&self, policy: Option<&Name>, error: &Error) {
        let kind = FAILURES.iter().position(|code| *code == error.code() && !code.is_outage());
        let log = kind.and_then(|kind| self.refusals.get(kind));
        if let Some(requests) = log.and_then(LimitedLog::count) {
            let (code, reason) = (error.code().as_str(), error.message());
            let policy = policy.map(Name::as_str);
            tracing::warn!(code, policy, reason, requests, "requests got no decision");
        }
    }
}

impl EngineObserver for Telemetry {
    fn decided(&self, request: &CheckRequest<'_>, result: &engine::Result<CheckResponse>) {
        self.record(request, result);
        if self.traces.is_some() {
            traces::note(request, result, &self.redaction.load());
        }
    }

    fn batch_decided(
        &self,
        requests: &[CheckRequest<'_>],
        results: &[engine::Result<CheckResponse>],
    ) {
        for (request, result) in requests.iter().zip(results) {
            self.record(request, result);
        }
        if self.traces.is_some() {
            traces::note_batch(results);
        }
    }

    fn shadow_failed(&self, policy: &Name, error: &Error) {
        self.metrics.failed(error.code(), Some(policy));
        self.refused(Some(policy), error);
    }

    fn refunded(&self, of: Option<(&Name, &str)>, result: &engine::Result<SettleResponse>) {
        let outcome = settle_outcome(result, "nothing_left");
        self.metrics.refunded(of.map_or("", |(policy, _)| policy.as_str()), outcome);
        if let Some(refunds) = self.refunds.count() {
            let (policy, key) = self.policy_and_key(of);
            let units = result.as_ref().ok().map(SettleResponse::refunded);
            let code = result.as_ref().err().map(|failure| failure.error.code().as_str());
            tracing::info!(policy, key, units, outcome, code, refunds, "a refund");
        }
    }

    fn settled(&self, of: Option<(&Name, &str)>, result: &engine::Result<SettleResponse>) {
        let outcome = settle_outcome(result, "unchanged");
        self.metrics.settled(of.map_or("", |(policy, _)| policy.as_str()), outcome);
        if let Some(settlements) = self.settlements.count() {
            let (policy, key) = self.policy_and_key(of);
            let settled = result.as_ref().ok();
            let refunded = settled.map(SettleResponse::refunded);
            let charged = settled.map(SettleResponse::charged);
            let dropped = settled.map(SettleResponse::dropped);
            let code = result.as_ref().err().map(|failure| failure.error.code().as_str());
            tracing::info!(
                policy,
                key,
                refunded,
                charged,
                dropped,
                outcome,
                code,
                settlements,
                "a settlement"
            );
        }
    }

    fn reset(&self, policy: &Name, key: &str, result: &engine::Result<()>) {
        let outcome = if result.is_ok() { "done" } else { "failed" };
        self.metrics.reset(policy.as_str(), outcome);
        if let Some(resets) = self.resets.count() {
            let key = self.redaction.load().in_logs(key);
            tracing::info!(%policy, key, outcome, resets, "a reset");
        }
    }

    fn policies_replaced(&self, before: &Policies, policies: &Policies) {
        self.metrics.add_policies(policies);
        self.metrics.reloaded("applied");
        let changes = before.changes_to(policies);
        for PolicyChange { policy, text } in changes.iter().take(LOGGED_MAX) {
            tracing::info!(%policy, change = %text, "a policy has changed");
        }
        if let Some(more) = changes.len().checked_sub(LOGGED_MAX).filter(|more| *more > 0) {
            tracing::info!(more, "further policies have changed");
        }
        self.changes.add(reloaded(&changes));
    }

    fn policies_refused(&self) {
        self.metrics.reloaded("refused");
        self.changes.add("A reload was refused: the configuration stays as it was.");
    }
}

/// What a reload changed, in a sentence.
fn reloaded(changes: &[PolicyChange]) -> String {
    let named: Vec<_> = changes.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let more = match changes.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!("; and {more} more changes"),
    };
    match &*named {
        [] => "The configuration was reloaded: the policies stay as they were.".to_owned(),
        named => format!("The configuration was reloaded: {}{more}.", named.join("; ")),
    }
}

/// The units of all charges of a request; of a range the fewest.
fn units(request: &CheckRequest<'_>) -> u64 {
    request.charges().iter().map(|charge| charge.cost.get()).sum()
}

/// What a settlement or a refund came to, in a word; `nothing` if it changed no limit.
fn settle_outcome(result: &engine::Result<SettleResponse>, nothing: &'static str) -> &'static str {
    match result {
        Ok(settled) if settled.standing.replayed => "replayed",
        Ok(settled) if settled.dropped() > 0 => "dropped",
        Ok(settled) if settled.charged() > 0 => "charged",
        Ok(settled) if settled.refunded() > 0 => "given_back",
        Ok(_) => nothing,
        Err(failure) => match failure.error.code() {
            Code::InvalidRequest
            | Code::UnknownPolicy
            | Code::Forbidden
            | Code::IdempotencyConflict
            | Code::Unsupported => "refused",
            _ => "failed",
        },
    }
}
