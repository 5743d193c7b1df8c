//! Listening: sockets, a bound on connections, and what ends them. The same for every protocol.

mod drain;
mod preface;
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

pub(crate) use drain::{Drain, Draining};
pub(crate) use stream::Stream;

/// How long to pause when the operating system has no socket left to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a client may take to agree on keys.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// How many connections that wait to be accepted at the end still are.
const BACKLOG: usize = 1_024;

/// A socket that listens, and how many connections it serves at once.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    places: Arc<Semaphore>,
    tls: Option<Tunnel>,
}

/// Accepts TLS. Its keys are nobody's business.
#[derive(Clone)]
struct Tunnel(TlsAcceptor);

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tunnel")
    }
}

/// A socket and its place.
type Accepted = (TcpStream, OwnedSemaphorePermit);

/// A connection, and its place among the bounded number of them.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    /// Given back when the connection ends.
    pub(crate) place: OwnedSemaphorePermit,
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
        Ok(Self { socket, places: Arc::new(Semaphore::new(connections)), tls: None })
    }

    /// The same listener behind TLS, whose clients are told which protocol is spoken.
    pub(crate) fn with_tls(mut self, tls: Option<&Tls>, protocol: Option<&[u8]>) -> Result<Self> {
        self.tls = tls.map(|tls| tls::acceptor(tls, protocol).map(Tunnel)).transpose()?;
        Ok(self)
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
        self.socket
            .local_addr()
            .map_err(|error| Error::config("address", format!("the socket has none: {error}")))
    }

    /// Serves every connection with `serve` until it is time to end; then those that wait to be
    /// accepted still are, so that nobody who could connect is left without an answer.
    pub(crate) async fn run<F, W>(self, mut draining: Draining, serve: F)
    where
        F: Fn(Connection, Draining) -> W + Clone + Send + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        let more = draining.clone();
        loop {
            tokio::select! {
                biased;
                () = draining.stopped() => break,
                accepted = self.accept() => self.spawn(accepted, serve.clone(), more.clone()),
            }
        }
        for _ in 0..BACKLOG {
            let waiting = tokio::time::timeout(Duration::ZERO, self.accept());
            let Ok(accepted) = waiting.await else { return };
            self.spawn(accepted, serve.clone(), more.clone());
        }
    }

    fn spawn<F, W>(&self, (stream, place): Accepted, serve: F, draining: Draining)
    where
        F: Fn(Connection, Draining) -> W + Send + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        let tls = self.tls.clone();
        tokio::spawn(async move {
            if let Some(stream) = shake_hands(stream, tls).await {
                serve(Connection { stream, place }, draining).await;
            }
        });
    }

    /// The next connection, once there is a place for it.
    async fn accept(&self) -> Accepted {
        let place = Arc::clone(&self.places).acquire_owned();
        let Ok(place) = place.await else { return std::future::pending().await };
        loop {
            match self.socket.accept().await {
                Ok((stream, _)) => {
                    // Replies are small and whole: waiting to fill a packet only delays them.
                    let _ignored = stream.set_nodelay(true);
                    return (stream, place);
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Agrees on keys, if the listener has any.
async fn shake_hands(stream: TcpStream, tls: Option<Tunnel>) -> Option<Stream> {
    let Some(Tunnel(acceptor)) = tls else { return Some(Stream::Plain(stream)) };
    match tokio::time::timeout(HANDSHAKE_WITHIN, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Some(Stream::Tls(Box::new(stream))),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a client could not agree on keys");
            None
        }
        Err(_) => None,
    }
}
