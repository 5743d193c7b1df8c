//! Listening: sockets, a bound on connections, and what ends them. The same for every protocol.

mod drain;
pub(crate) mod web;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollgate::{Error, Result};

pub(crate) use drain::{Drain, Draining};

/// How long to pause when the operating system has no socket left to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How many connections that wait to be accepted at the end still are.
const BACKLOG: usize = 1_024;

/// A socket that listens, and how many connections it serves at once.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    places: Arc<Semaphore>,
}

/// A connection, and its place among the bounded number of them.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
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
        Ok(Self { socket, places: Arc::new(Semaphore::new(connections)) })
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
        F: Fn(Connection, Draining) -> W,
        W: Future<Output = ()> + Send + 'static,
    {
        let more = draining.clone();
        loop {
            tokio::select! {
                biased;
                () = draining.stopped() => break,
                connection = self.accept() => {
                    tokio::spawn(serve(connection, more.clone()));
                }
            }
        }
        for _ in 0..BACKLOG {
            let waiting = tokio::time::timeout(Duration::ZERO, self.accept());
            let Ok(connection) = waiting.await else { return };
            tokio::spawn(serve(connection, more.clone()));
        }
    }

    /// The next connection, once there is a place for it.
    async fn accept(&self) -> Connection {
        let place = Arc::clone(&self.places).acquire_owned();
        let Ok(place) = place.await else { return std::future::pending().await };
        loop {
            match self.socket.accept().await {
                Ok((stream, _)) => {
                    // Replies are small and whole: waiting to fill a packet only delays them.
                    let _ignored = stream.set_nodelay(true);
                    return Connection { stream, place };
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}
