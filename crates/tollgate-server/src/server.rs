//! The server: binds what it is told, runs until it is told to end, and ends well.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tollgate::limiter::{Degradation, Observer};
use tollgate::store::{BoxStore, Store};
use tollgate::{Limiter, Result};

use crate::auth::Auth;
use crate::config::Config;
use crate::engine::Engine;
use crate::grpc::Health;
use crate::listen::{Drain, Listener, web};
use crate::metrics::{Metrics, Timed};
use crate::trace::Traces;
use crate::{grpc, http, resp, store};

/// A server that listens, and does not answer yet.
#[derive(Debug)]
pub struct Server {
    engine: Arc<Engine>,
    auth: Arc<Auth>,
    http: Option<Listener>,
    grpc: Option<(Listener, Router, Health)>,
    resp: Option<Listener>,
    drain: Duration,
}

/// Where a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// HTTP, if it is served.
    pub http: Option<SocketAddr>,
    /// gRPC, if it is served.
    pub grpc: Option<SocketAddr>,
    /// RESP, if it is served.
    pub resp: Option<SocketAddr>,
}

impl Server {
    /// Opens the store and listens. Connections wait until the server runs.
    ///
    /// # Errors
    /// When the store cannot be opened or an address cannot be listened on.
    pub async fn bind(config: Config) -> Result<Self> {
        let metrics = Metrics::new();
        let traces = config.traces.as_ref().map(Traces::to_collector).transpose()?.map(Arc::new);
        let store = store::open(&config.store, config.retries).await?;
        let store = watched(store, &config, &metrics, traces.clone());
        let failure = config.failure;
        let limiter = Limiter::builder(store)
            .deadline(failure.deadline)
            .breaker(failure.breaker)
            .max_in_flight(failure.max_in_flight)
            .local_share(failure.local_share)
            .observer(Log)
            .build();
        let engine = Engine::new(limiter, config.policies.clone())
            .with_metrics(metrics)
            .with_key_names(config.log.keys.clone())
            .with_traces(traces);
        Self::bind_engine(config, engine).await
    }

    /// Listens for an engine that was made elsewhere: with a store or a clock of one's own. The store
    /// and the policies of the configuration are not looked at.
    ///
    /// # Errors
    /// When an address cannot be listened on.
    pub async fn bind_engine(config: Config, engine: Engine) -> Result<Self> {
        let engine = Arc::new(engine);
        let grpc = match listen(&config, "grpc", config.grpc).await? {
            Some(listener) => {
                let made = grpc::router(Arc::clone(&engine), config.auth.clone()).await?;
                let (router, health) = made;
                Some((listener, router, health))
            }
            None => None,
        };
        Ok(Self {
            http: listen(&config, "http", config.http).await?,
            grpc,
            resp: listen(&config, "resp", config.resp).await?,
            engine,
            auth: Arc::new(config.auth),
            drain: config.drain,
        })
    }

    /// Where it listens; with port 0 the operating system chose.
    ///
    /// # Errors
    /// When the operating system does not say.
    pub fn addresses(&self) -> Result<Addresses> {
        let of = |listener: Option<&Listener>| listener.map(Listener::address).transpose();
        Ok(Addresses {
            http: of(self.http.as_ref())?,
            grpc: of(self.grpc.as_ref().map(|(listener, ..)| listener))?,
            resp: of(self.resp.as_ref())?,
        })
    }

    /// The engine behind all protocols.
    #[must_use]
    pub fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine)
    }

    /// Answers until `shutdown` is ready; then answers what has begun, within the time for it.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let drain = Drain::new();
        if let Some(listener) = self.http {
            let router = http::router(Arc::clone(&self.engine), &self.auth);
            let serve =
                move |connection, draining| web::serve_http(connection, router.clone(), draining);
            tokio::spawn(listener.run(drain.draining(), serve));
        }
        let mut watched = None;
        if let Some((listener, router, health)) = self.grpc {
            let serve =
                move |connection, draining| web::serve_grpc(connection, router.clone(), draining);
            tokio::spawn(listener.run(drain.draining(), serve));
            watched = Some(health);
        }
        if let Some(listener) = self.resp {
            let both = (Arc::clone(&self.engine), Arc::clone(&self.auth));
            let serve = move |connection, draining| resp::serve(connection, both.clone(), draining);
            tokio::spawn(listener.run(drain.draining(), serve));
        }
        shutdown.await;
        if let Some(health) = watched {
            health.end().await;
        }
        if tokio::time::timeout(self.drain, drain.finish()).await.is_err() {
            tracing::warn!("some requests did not end in time");
        }
        self.engine.close().await;
    }
}

/// Counts and times the calls to a store, unless it is in this process.
fn watched(
    store: BoxStore,
    config: &Config,
    metrics: &Arc<Metrics>,
    traces: Option<Arc<Traces>>,
) -> BoxStore {
    if store.capability().in_process {
        return store;
    }
    let name = store::scheme_of(&config.store).unwrap_or_default().to_owned();
    BoxStore::new(Timed { inner: store, name, metrics: Arc::clone(metrics), traces })
}

/// Writes down what the limiter tells, which is at most once per second and kind.
#[derive(Debug)]
struct Log;

impl Observer for Log {
    fn degraded(&self, event: &Degradation<'_>) {
        let (mode, code) = (event.mode.as_str(), event.code.as_str());
        let (reason, decisions) = (event.reason, event.decisions);
        tracing::warn!(mode, code, reason, decisions, "decided without the store");
    }

    fn clock_behind(&self, policy: &str, behind_ms: u64) {
        let cure = "reset the key, or wait";
        tracing::warn!(policy, behind_ms, cure, "a clock is behind one that charged a key");
    }
}

/// Listens where a protocol shall be, and says in TLS which it is.
async fn listen(
    config: &Config,
    field: &'static str,
    address: Option<SocketAddr>,
) -> Result<Option<Listener>> {
    let Some(address) = address else { return Ok(None) };
    let protocol: Option<&[u8]> = match field {
        "http" => Some(b"http/1.1"),
        "grpc" => Some(b"h2"),
        _ => None,
    };
    let listener = Listener::bind(field, address, config.connections).await?;
    listener.with_tls(config.tls.as_ref(), protocol).map(Some)
}
