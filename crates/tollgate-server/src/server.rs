//! The server: binds what it is told, runs until it is told to end, and ends well.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tollgate::{Limiter, Result};

use crate::config::Config;
use crate::engine::Engine;
use crate::listen::{Drain, Listener, web};
use crate::{grpc, http, resp, store};

/// A server that listens, and does not answer yet.
#[derive(Debug)]
pub struct Server {
    engine: Arc<Engine>,
    http: Option<Listener>,
    grpc: Option<(Listener, Router)>,
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
        let limiter = Limiter::new(store::open(&config.store).await?);
        let engine = Engine::new(limiter, config.policies.clone());
        Self::bind_engine(config, engine).await
    }

    /// Listens for an engine that was made elsewhere: with a store or a clock of one's own. The store
    /// and the policies of the configuration are not looked at.
    ///
    /// # Errors
    /// When an address cannot be listened on.
    pub async fn bind_engine(config: Config, engine: Engine) -> Result<Self> {
        let engine = Arc::new(engine);
        let grpc = match listen("grpc", config.grpc, config.connections).await? {
            Some(listener) => Some((listener, grpc::router(Arc::clone(&engine)).await?)),
            None => None,
        };
        Ok(Self {
            http: listen("http", config.http, config.connections).await?,
            grpc,
            resp: listen("resp", config.resp, config.connections).await?,
            engine,
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
            grpc: of(self.grpc.as_ref().map(|(listener, _)| listener))?,
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
            let router = http::router(Arc::clone(&self.engine));
            let serve =
                move |connection, draining| web::serve_http(connection, router.clone(), draining);
            tokio::spawn(listener.run(drain.draining(), serve));
        }
        if let Some((listener, router)) = self.grpc {
            let serve =
                move |connection, draining| web::serve_grpc(connection, router.clone(), draining);
            tokio::spawn(listener.run(drain.draining(), serve));
        }
        if let Some(listener) = self.resp {
            let engine = Arc::clone(&self.engine);
            let serve =
                move |connection, draining| resp::serve(connection, Arc::clone(&engine), draining);
            tokio::spawn(listener.run(drain.draining(), serve));
        }
        shutdown.await;
        if tokio::time::timeout(self.drain, drain.finish()).await.is_err() {
            tracing::warn!("some requests did not end in time");
        }
        self.engine.close().await;
    }
}

async fn listen(
    field: &'static str,
    address: Option<SocketAddr>,
    connections: usize,
) -> Result<Option<Listener>> {
    match address {
        Some(address) => Listener::bind(field, address, connections).await.map(Some),
        None => Ok(None),
    }
}
