//! Listeners: sockets, TLS, bounds on connections and on their time, and shutdown; the same for
//! every protocol.

mod body;
mod client;
mod connections;
mod incoming;
mod pace;
mod pieces;
mod reply;
mod shutdown;
mod stream;
mod tls;
pub(crate) mod web;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tollgate::{Error, Result};

use self::connections::{Connections, Counted};
use crate::config::Config;
use crate::telemetry::Telemetry;
use crate::workers::Workers;

pub(crate) use body::{Bounded, Unreadable};
pub(crate) use client::{Client, UnderWay};
pub(crate) use incoming::IncomingBytes;
pub(crate) use reply::{Held, Reply};
pub(crate) use shutdown::{Shutdown, ShutdownSignal};
pub(crate) use stream::{Stream, Watched};
pub(crate) use tls::{Acceptor, TlsFiles};

/// How long to wait when the process has no file descriptor left.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// The most waiting connections that are still accepted at shutdown.
const BACKLOG: usize = 1_024;

/// A listening socket with a bound on its connections.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    connections: Arc<Connections>,
    tls: Option<Acceptor>,
}

/// A connection, and what is known of its client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) client: Arc<Client>,
}

impl Listener {
    /// Listens on an address; `field` names it in errors.
    pub(crate) async fn bind(
        field: &'static str,
        address: SocketAddr,
        config: &Config,
        telemetry: Arc<Telemetry>,
    ) -> Result<Self> {
        let socket = TcpListener::bind(address).await.map_err(|error| {
            Error::config(field, format!("cannot listen on {address}: {error}"))
        })?;
        let (max, limits) = (config.connections, config.time_limits);
        let connections = Connections::new(field, max, limits, telemetry);
        Ok(Self { socket, connections, tls: None })
    }

    /// Adds TLS, which negotiates `protocol` (ALPN).
    pub(crate) fn with_tls(
        mut self,
        tls: Option<&TlsFiles>,
        protocol: Option<&'static [u8]>,
    ) -> Result<Self> {
        self.tls = tls.map(|files| Acceptor::new(files, protocol)).transpose()?;
        Ok(self)
    }

    /// What accepts TLS, if the listener has it.
    pub(crate) const fn acceptor(&self) -> Option<&Acceptor> {
        self.tls.as_ref()
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
        self.socket
            .local_addr()
            .map_err(|error| Error::config("address", format!("the socket has none: {error}")))
    }

    /// Serves every connection on a worker, until shutdown. Connections that wait in the backlog
    /// are then still accepted: a client that could connect gets its answer.
    pub(crate) async fn run<F, W>(self, workers: Workers, mut signal: ShutdownSignal, serve: F)
    where
        F: Fn(Connection, ShutdownSignal) -> W + Clone + Send + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        let shared = signal.clone();
        tokio::spawn(Connections::check_limits(Arc::downgrade(&self.connections)));
        loop {
            tokio::select! {
                biased;
                () = signal.received() => break,
                accepted = self.accept_in_turn() => {
                    workers.spawn(self.serve(accepted, serve.clone(), shared.clone()));
                }
            }
        }
        for _ in 0..BACKLOG {
            let waiting = tokio::time::timeout(Duration::ZERO, self.accept());
            let Ok(accepted) = waiting.await else { return };
            workers.spawn(self.serve(accepted, serve.clone(), shared.clone()));
        }
    }

    /// Serves a connection, which the listener may make room for: it is counted at once.
    fn serve<F, W>(
        &self,
        stream: std::net::TcpStream,
        serve: F,
        signal: ShutdownSignal,
    ) -> impl Future<Output = ()> + Send + use<F, W>
    where
        F: Fn(Connection, ShutdownSignal) -> W + Send + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        let counted = self.connections.admit();
        let tls = self.tls.clone();
        async move {
            let Counted { client, .. } = &counted;
            let stream = tokio::select! {
                stream = handshake(stream, tls) => stream,
                _ = client.closed() => None,
            };
            if let Some(stream) = stream {
                serve(Connection { stream, client: Arc::clone(client) }, signal).await;
            }
        }
    }

    /// The next connection, once the listener may accept one.
    async fn accept_in_turn(&self) -> std::net::TcpStream {
        self.connections.turn().await;
        self.accept().await
    }

    /// The next connection, which no runtime has yet.
    async fn accept(&self) -> std::net::TcpStream {
        loop {
            let accepted = self.socket.accept().await;
            match accepted.and_then(|(stream, _)| stream.into_std()) {
                Ok(stream) => {
                    // Responses are small and written at once: Nagle's algorithm only delays them.
                    let _ignored = stream.set_nodelay(true);
                    return stream;
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
    }
}

/// The TLS handshake, if the listener has TLS.
async fn handshake(stream: std::net::TcpStream, tls: Option<Acceptor>) -> Option<Stream> {
    let stream = TcpStream::from_std(stream)
        .inspect_err(|error| tracing::warn!(%error, "a connection could not be served"))
        .ok()?;
    let Some(acceptor) = tls else { return Some(Stream::Plain(stream)) };
    match acceptor.current().accept(stream).await {
        Ok(stream) => Some(Stream::Tls(Box::new(stream))),
        Err(error) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
    }
}
