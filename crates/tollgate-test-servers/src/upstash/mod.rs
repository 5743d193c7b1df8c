//! The REST interface of Upstash over a real Redis server, for tests of its clients.
//!
//! Upstash cannot be installed, and Redis has no such interface. This is the documented contract,
//! checked against the client that Upstash publishes: `rest` turns requests into commands and
//! replies into responses. A real server executes the commands, so a script decides as on Upstash.

mod base64;
mod rest;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::Result;
use super::http_server::{Handler, HttpServer};
use super::redis::Redis;

use rest::Session;

/// An HTTP server with the interface of Upstash. Dropping it closes its port and every connection.
#[derive(Debug)]
pub struct UpstashShim {
    server: HttpServer,
    requests: Arc<AtomicU64>,
    token: String,
}

impl UpstashShim {
    /// Starts it in front of a server without a password. Clients need the token.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn to(redis: &Redis, token: &str) -> Result<Self> {
        let requests = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&requests);
        let (redis, needed) = (redis.addr(), token.to_owned());
        let server = HttpServer::start(move || {
            let counted = Arc::clone(&counted);
            let mut session = Session::new(redis, needed.clone());
            let handler: Handler = Box::new(move |request| {
                let response = session.answer(request);
                counted.fetch_add(1, Ordering::Relaxed);
                Some(response)
            });
            Some(handler)
        })?;
        Ok(Self { server, requests, token: token.to_owned() })
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// The token of clients.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.server.accepted()
    }

    /// How many requests were answered so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Closes every connection, as a load balancer closes idle ones.
    pub fn close_connections(&self) {
        self.server.close_connections();
    }
}
