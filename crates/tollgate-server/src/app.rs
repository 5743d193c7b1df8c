//! What every listener shares: the API with its engine and tokens, telemetry, and readiness.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::sync::Mutex;
use tollgate::store::Store;
use tollgate::{Code, Micros};
use tollgate_service::auth::Role;
use tollgate_service::engine::{CheckResponse, Engine, Failure, Result};
use tollgate_service::{Api, Auth};

use crate::config::{Config, TimeLimits};
use crate::hosts::Hosts;
use crate::listen::Client;
use crate::status::Status;
use crate::telemetry::Telemetry;

/// How long the result of a probe is served, in microseconds: probes of clients must not load the
/// store.
const READINESS_MAX_AGE: Micros = 1_000_000;

/// The state that every connection shares.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) api: Api,
    pub(crate) telemetry: Arc<Telemetry>,
    /// By which names clients without a token reach the HTTP listener.
    pub(crate) hosts: Hosts,
    pub(crate) time_limits: TimeLimits,
    pub(crate) status: Status,
    /// Whether the page and what it reads are served.
    has_page: AtomicBool,
    /// The last probe of the store: when it was made, and its result.
    probed: Mutex<Option<(Micros, Result<()>)>>,
}

impl App {
    pub(crate) fn new(engine: Engine, config: &Config, telemetry: Arc<Telemetry>) -> Arc<Self> {
        telemetry.metrics.add_policies(&engine.policies());
        let mut engine = engine.with_observer(Arc::<Telemetry>::clone(&telemetry));
        match &config.receipt_key {
            // Receipts end with the states and the records that they are for.
            _ if engine.in_process() => {}
            Some(key) => engine = engine.with_receipt_key(key.clone()),
            None => tracing::warn!(
                "receipts are valid on this server alone and until it ends: set receipt_secret"
            ),
        }
        let api = Api::new(engine, config.auth.clone());
        let hosts = Hosts::of(config.http, &config.hosts);
        let time_limits = config.time_limits;
        let status = Status::new(config);
        let has_page = AtomicBool::new(config.reaches_callers_only());
        let probed = Mutex::new(None);
        Arc::new(Self { api, telemetry, hosts, time_limits, status, has_page, probed })
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.api.engine()
    }

    /// The tokens in force.
    pub(crate) fn auth(&self) -> impl Deref<Target = Arc<Auth>> + use<> {
        self.api.auth()
    }

    /// Whether the page and what it reads are served.
    pub(crate) fn has_page(&self) -> bool {
        self.has_page.load(Relaxed)
    }

    /// Applies what a configuration says besides its policies and its certificates: tokens, and
    /// keys in logs.
    pub(crate) fn apply(&self, config: &Config) {
        self.api.replace_auth(config.auth.clone());
        self.has_page.store(config.reaches_callers_only(), Relaxed);
        self.telemetry.redaction.store(Arc::new(config.log.keys.clone()));
    }

    /// Refuses a foreign host, where a client needs no token for a role.
    ///
    /// # Errors
    /// `forbidden`.
    pub(crate) fn check_host(&self, needed: Role, host: Option<&str>) -> tollgate::Result<()> {
        if self.auth().role_without_token() < Some(needed) {
            return Ok(());
        }
        self.hosts.check(host)
    }

    /// Notes a request that was permitted. Where callers need a token, one that needs none says
    /// nothing about the client.
    pub(crate) fn note_valid(&self, client: &Client, has_role: bool) {
        if has_role || !self.auth().guards_callers() {
            client.made_valid_request();
        }
    }

    /// Counts and logs a client that failed to authenticate, and delays its next attempt.
    pub(crate) async fn authentication_failed(&self, protocol: &'static str, client: &Client) {
        self.telemetry.authentication_failed(protocol);
        client.delay_attempt().await;
    }

    /// Whether the store answers. It is called at most once per second; concurrent requests share
    /// the result.
    pub(crate) async fn ready(&self) -> Result<()> {
        let now = self.engine().limiter().clock().now();
        let mut probed = self.probed.lock().await;
        if let Some((at, result)) = &*probed
            && now.checked_sub(*at).is_some_and(|age| age < READINESS_MAX_AGE)
        {
            return result.as_ref().copied().map_err(Failure::clone);
        }
        let result = self.engine().probe().await;
        *probed = Some((now, result.clone()));
        result
    }

    /// All metrics, in the OpenMetrics text format.
    pub(crate) fn metrics_text(&self) -> String {
        let limiter = self.engine().limiter();
        let (stats, clock) = (limiter.stats(), limiter.clock().health());
        let store = limiter.store();
        let counts = (store.round_trips(), store.forgotten_request_ids());
        self.telemetry.metrics.text(stats, clock, counts, &store.usage())
    }

    /// Counts a problem that a client of a protocol is answered, if it is the fault of the client.
    pub(crate) fn refused(&self, protocol: &'static str, code: Code) {
        self.telemetry.metrics.refused(protocol, code);
    }

    /// Counts the elements of a batch that are the fault of the client, as requests of their own.
    pub(crate) fn refused_elements(&self, protocol: &'static str, batch: &[Result<CheckResponse>]) {
        for failure in batch.iter().filter_map(|result| result.as_ref().err()) {
            self.refused(protocol, failure.error.code());
        }
    }

    /// Closes the store, and sends the last traces.
    pub(crate) async fn close(&self) {
        self.engine().close().await;
        if let Some(traces) = &self.telemetry.traces {
            traces.shutdown().await;
        }
    }
}
