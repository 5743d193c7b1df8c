//! Listeners: sockets, TLS, a bound on connections, and shutdown; the same for every protocol.

mod preface;
mod shutdown;
mod stream;
mod tls;
pub(crate) mod web;

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tollgate::{Error, Result};

use crate::config::Tls;

pub(crate) use shutdown::{Shutdown, ShutdownSignal};
pub(crate) use stream::Stream;

/// How long to wait when the process has no file descriptor left.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most waiting connections that are still accepted at shutdown.
const BACKLOG: usize = 1_024;

/// A listening socket with a bound on its connections.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    permits: Arc<Semaphore>,
    tls: Option<Acceptor>,
}

/// Accepts TLS. `Debug` omits its keys.
#[derive(Clone)]
struct Acceptor(TlsAcceptor);

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}

/// A socket and its permit.
type Accepted = (TcpStream, OwnedSemaphorePermit);

/// A connection, and its permit of the bounded number.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    /// Returned when the connection ends.
    pub(crate) permit: OwnedSemaphorePermit,
}

impl Listener {
    /// Listens on an address; `field` names it in errors.
    pub(crate) async fn bind(
        field: &'static str,
        address: SocketAddr,
        connections: usize,
    ) -> Result<Self> {
        let socket = TcpListener::bind(address).await.map_err(|error| {
            Error::config(field, format!("cannot listen on {address}: {error}"))
        })?;
        Ok(Self { socket, permits: Arc::new(Semaphore::new(connections)), tls: None })
    }

    /// Adds TLS, which negotiates `protocol` (ALPN).
    pub(crate) fn with_tls(mut self, tls: Option<&Tls>, protocol: Option<&[u8]>) -> Result<Self> {
        self.tls = tls.map(|tls| tls::acceptor(tls, protocol).map(Acceptor)).transpose()?;
        Ok(self)
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
        self.socket
            .local_addr()
            .map_err(|error| Error::config("address", format!("the socket has none: {error}")))
    }

    /// Serves every connection until shutdown. Connections that wait in the backlog are then still
    /// accepted: a client that could connect gets its answer.
    pub(crate) async fn run<F, W>(self, mut signal: ShutdownSignal, serve: F)
    where
        F: Fn(Connection, ShutdownSignal) -> W + Clone + Send + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        let shared = signal.clone();
        loop {
            tokio::select! {
                biased;
                () = signal.received() => break,
                accepted = self.accept() => self.spawn(accepted, serve.clone(), shared.clone()),
            }
        }
        for _ in 0..BACKLOG {
            let waiting = tokio::time::timeout(Duration::ZERO, self.accept());
            let Ok(accepted) = waiting.await else { return };
            self.spawn(accepted, serve.clone(), shared.clone());
        }
    }

    fn spawn<F, W>(&self, (stream, permit): Accepted, serve: F, signal: ShutdownSignal)
    where
        F: Fn(Connection, ShutdownSignal) -> W + Send + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        let tls = self.tls.clone();
        tokio::spawn(async move {
            if let Some(stream) = handshake(stream, tls).await {
                serve(Connection { stream, permit }, signal).await;
            }
        });
    }

    /// The next connection, once there is a permit for it.
    async fn accept(&self) -> Accepted {
        let permit = Arc::clone(&self.permits).acquire_owned();
        let Ok(permit) = permit.await else { return std::future::pending().await };
        loop {
            match self.socket.accept().await {
                Ok((stream, _)) => {
                    // Responses are small and written at once: Nagle's algorithm only delays them.
                    let _ignored = stream.set_nodelay(true);
                    return (stream, permit);
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
async fn handshake(stream: TcpStream, tls: Option<Acceptor>) -> Option<Stream> {
    let Some(Acceptor(acceptor)) = tls else { return Some(Stream::Plain(stream)) };
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Some(Stream::Tls(Box::new(stream))),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
        Err(_) => None,
    }
}
