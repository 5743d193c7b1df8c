//! What every listener shares: the API with its engine and tokens, telemetry, and readiness.

use std::sync::Arc;

use tokio::sync::Mutex;
use tollgate::Micros;
use tollgate::store::Store;
use tollgate_service::engine::{Engine, Failure, Result};
use tollgate_service::{Api, Auth};

use crate::telemetry::Telemetry;

/// How long the result of a probe is served, in microseconds: probes of clients must not load the
/// store.
const READINESS_MAX_AGE: Micros = 1_000_000;

/// The state that every connection shares.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) api: Api,
    pub(crate) telemetry: Arc<Telemetry>,
    /// The last probe of the store: when it was made, and its result.
    probed: Mutex<Option<(Micros, Result<()>)>>,
}

impl App {
    pub(crate) fn new(engine: Engine, auth: Auth, telemetry: Arc<Telemetry>) -> Arc<Self> {
        let engine = engine.with_observer(Arc::<Telemetry>::clone(&telemetry));
        let api = Api::new(engine, auth);
        Arc::new(Self { api, telemetry, probed: Mutex::new(None) })
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.api.engine()
    }

    pub(crate) fn auth(&self) -> &Auth {
        self.api.auth()
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
        self.telemetry.metrics.text(stats, clock, limiter.store().round_trips())
    }

    /// Closes the store, and sends the last traces.
    pub(crate) async fn close(&self) {
        self.engine().close().await;
        if let Some(traces) = &self.telemetry.traces {
            traces.shutdown().await;
        }
    }
}
