//! The REST interface of Upstash over a real Redis server, for tests of clients that speak it.
//!
//! Upstash cannot be installed, and Redis has no such interface. This is the documented contract,
//! checked against the client that Upstash publishes: `rest` turns requests into commands and
//! replies into responses. What a command does is the server's business, so whatever a script decides
//! here it would decide there.

mod base64;
mod rest;
#[cfg(test)]
mod tests;

use std::io::BufReader;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::error::Result;
use super::http;
use super::port::Port;
use super::redis::Redis;

use rest::Rest;

/// How long a connection to itself may take, to wake the thread that accepts.
const WAKE: Duration = Duration::from_secs(5);

/// An HTTP server that speaks as Upstash does. Dropping it closes its port and every connection.
#[derive(Debug)]
pub struct UpstashShim {
    desk: Arc<Desk>,
    acceptor: Option<JoinHandle<()>>,
    token: String,
    port: Port,
}

/// What the threads of a shim share.
#[derive(Debug, Default)]
struct Desk {
    /// The open connections; `None` once the shim is closed.
    open: Mutex<Option<Vec<TcpStream>>>,
    connections: AtomicU64,
    requests: AtomicU64,
}

impl UpstashShim {
    /// Stands in front of a server, which must have no password, and lets in who has the token.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn to(redis: &Redis, token: &str) -> Result<Self> {
        let port = Port::reserve()?;
        let listener = port.listen()?;
        let desk = Arc::new(Desk { open: Mutex::new(Some(Vec::new())), ..Desk::default() });
        let rest = Rest { redis: redis.addr(), token: token.to_owned() };
        let shared = Arc::clone(&desk);
        let acceptor = thread::spawn(move || accept_for_ever(&listener, &rest, &shared));
        Ok(Self { desk, acceptor: Some(acceptor), token: token.to_owned(), port })
    }

    /// Its address as clients take it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// The token that lets a client in.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.desk.connections.load(Ordering::Relaxed)
    }

    /// How many requests were answered so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.desk.requests.load(Ordering::Relaxed)
    }

    /// Closes every connection, as a load balancer does to those that were idle for long.
    pub fn close_connections(&self) {
        self.desk.close_all();
    }
}

impl Drop for UpstashShim {
    fn drop(&mut self) {
        self.desk.close_all();
        *self.desk.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // The acceptor looks only when somebody connects.
        drop(TcpStream::connect_timeout(&self.addr(), WAKE));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Desk {
    /// Notes a connection; `false` when the shim is closed.
    fn enter(&self, stream: &TcpStream) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(open), Ok(copy)) = (open.as_mut(), stream.try_clone()) else {
            return false;
        };
        // One that has ended has no peer any more.
        open.retain(|stream| stream.peer_addr().is_ok());
        open.push(copy);
        self.connections.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn close_all(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in open.iter_mut().flat_map(|open| open.drain(..)) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Returns when the shim is closed.
fn accept_for_ever(listener: &TcpListener, rest: &Rest, desk: &Arc<Desk>) {
    for stream in listener.incoming() {
        // A client that gave up, or too many open files: the next may have more luck.
        let Ok(stream) = stream else { continue };
        if !desk.enter(&stream) {
            return;
        }
        let (rest, desk) = (rest.clone(), Arc::clone(desk));
        thread::spawn(move || serve(stream, rest, &desk));
    }
}

/// Answers one request after another, until the client goes.
fn serve(stream: TcpStream, rest: Rest, desk: &Desk) {
    let _ = stream.set_nodelay(true);
    let mut teller = rest.teller();
    let mut stream = BufReader::new(stream);
    while let Ok(Some(request)) = http::read(&mut stream) {
        let response = teller.answer(&request);
        desk.requests.fetch_add(1, Ordering::Relaxed);
        if http::write(stream.get_mut(), &request, &response).is_err() {
            break;
        }
    }
    // The copy at the desk would keep the connection open.
    let _ = stream.get_ref().shutdown(Shutdown::Both);
}
