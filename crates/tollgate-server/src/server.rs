//! The server: listens, serves until shutdown, and then completes what has begun.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use tollgate::limiter::{Degradation, Observer};
use tollgate::{Error, Limiter, Result};
use tollgate_service::Engine;

use crate::app::App;
use crate::config::Config;
use crate::grpc::{Health, Services};
use crate::listen::{Listener, Shutdown, TlsFiles, web};
use crate::reload::Reloader;
use crate::telemetry::{Telemetry, watch_clock};
use crate::workers::WorkerThreads;
use crate::{grpc, resp, status, store};

/// A server that listens, and does not answer yet.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    http: Option<Listener>,
    grpc: Option<(Listener, Arc<Services>, Health)>,
    resp: Option<Listener>,
    config: Config,
    tls: Option<TlsFiles>,
    threads: WorkerThreads,
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
    /// Connections have threads of their own if the store is in this process, and else are served
    /// by the runtime that runs the server.
    ///
    /// # Errors
    /// When the store cannot be opened or an address cannot be listened on.
    pub async fn bind(config: Config) -> Result<Self> {
        let telemetry = Telemetry::new(&config)?;
        let recorder = Some(Arc::clone(&telemetry));
        let store = store::open_with(&config.store, config.retries, recorder).await?;
        let failure = config.failure;
        let limiter = Limiter::builder(store)
            .deadline(failure.deadline)
            .breaker(failure.breaker)
            .max_in_flight(failure.max_in_flight)
            .local_share(failure.local_share)
            .observer(Log)
            .build();
        let engine = Engine::new(limiter, config.policies.clone());
        Self::listen(config, engine, telemetry).await
    }

    /// Listens for an engine with a store or a clock of its own. The store and the policies of the
    /// configuration are ignored.
    ///
    /// # Errors
    /// When an address cannot be listened on.
    pub async fn bind_engine(config: Config, engine: Engine) -> Result<Self> {
        let telemetry = Telemetry::new(&config)?;
        Self::listen(config, engine, telemetry).await
    }

    async fn listen(config: Config, engine: Engine, telemetry: Arc<Telemetry>) -> Result<Self> {
        let app = App::new(engine, &config, telemetry);
        let tls = config.tls.as_ref().map(TlsFiles::read).transpose()?;
        let of = Of { config: &config, tls: tls.as_ref(), app: &app };
        let grpc = match of.listen("grpc", config.grpc).await? {
            Some(listener) => {
                let (services, health) = grpc::services(Arc::clone(&app)).await?;
                Some((listener, services, health))
            }
            None => None,
        };
        let http = of.listen("http", config.http).await?;
        let resp = of.listen("resp", config.resp).await?;
        let threads = WorkerThreads::for_store(app.engine().in_process())
            .map_err(|error| Error::config("threads", format!("cannot be started: {error}")))?;
        Ok(Self { http, grpc, resp, app, config, tls, threads })
    }

    /// What applies other configurations to the server while it runs.
    #[must_use]
    pub fn reloader(&self) -> Reloader {
        let grpc = self.grpc.as_ref().map(|(listener, ..)| listener);
        let listeners = [self.http.as_ref(), grpc, self.resp.as_ref()].into_iter().flatten();
        let acceptors = listeners.filter_map(Listener::acceptor).cloned().collect();
        let (app, config) = (Arc::clone(&self.app), self.config.clone());
        Reloader::new(app, acceptors, config, self.tls.clone())
    }

    /// Where it listens; with port 0 the operating system chose.
    ///
    /// # Errors
    /// When the operating system does not return an address.
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
        Arc::clone(self.app.api.engine())
    }

    /// Serves until `shutdown` is ready; then completes what has begun, for at most `drain`.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let shutdown_of = Shutdown::new();
        let clock = tokio::spawn(watch_clock(self.engine()));
        let workers = || self.threads.workers();
        if let Some(listener) = self.http {
            let app = Arc::clone(&self.app);
            let serve =
                move |connection, draining| web::serve_http(connection, Arc::clone(&app), draining);
            tokio::spawn(listener.run(workers(), shutdown_of.signal(), serve));
        }
        let mut grpc_health = None;
        if let Some((listener, services, health)) = self.grpc {
            let serve = move |connection, signal| {
                web::serve_grpc(connection, Arc::clone(&services), signal)
            };
            tokio::spawn(listener.run(workers(), shutdown_of.signal(), serve));
            grpc_health = Some(health);
        }
        if let Some(listener) = self.resp {
            let app = Arc::clone(&self.app);
            let serve = move |connection, signal| resp::serve(connection, Arc::clone(&app), signal);
            tokio::spawn(listener.run(workers(), shutdown_of.signal(), serve));
        }
        let status = tokio::spawn(status::run(Arc::clone(&self.app)));
        shutdown.await;
        clock.abort();
        status.abort();
        if let Some(health) = grpc_health {
            health.shut_down().await;
        }
        if tokio::time::timeout(self.config.drain, shutdown_of.finish()).await.is_err() {
            tracing::warn!("some requests did not end within the drain time");
        }
        self.threads.stop().await;
        self.app.close().await;
    }
}

/// Logs reports of the limiter, of which there is at most one per second and kind.
#[derive(Debug)]
struct Log;

impl Observer for Log {
    fn degraded(&self, event: &Degradation<'_>) {
        let (mode, code) = (event.mode.as_str(), event.code.as_str());
        let (reason, decisions) = (event.reason, event.decisions);
        tracing::warn!(mode, code, reason, decisions, "decided without the store");
    }

    fn clock_behind(&self, policy: &str, behind_ms: u64) {
        let remedy = "reset the key, or wait";
        tracing::warn!(policy, behind_ms, remedy, "a clock is behind one that charged a key");
    }
}

/// What every listener needs.
struct Of<'a> {
    config: &'a Config,
    tls: Option<&'a TlsFiles>,
    app: &'a App,
}

impl Of<'_> {
    /// Listens on the address of a protocol, if it has one; TLS negotiates that protocol.
    async fn listen(
        &self,
        field: &'static str,
        address: Option<SocketAddr>,
    ) -> Result<Option<Listener>> {
        let Some(address) = address else { return Ok(None) };
        let protocol: Option<&'static [u8]> = match field {
            "http" => Some(b"http/1.1"),
            "grpc" => Some(b"h2"),
            _ => None,
        };
        let telemetry = Arc::clone(&self.app.telemetry);
        let listener = Listener::bind(field, address, self.config, telemetry).await?;
        listener.with_tls(self.tls, protocol).map(Some)
    }
}
