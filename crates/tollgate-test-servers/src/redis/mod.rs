//! Redis on its own; `cluster` and `sentinel` build on it.

mod builder;
mod cluster;
mod gossip;
mod redis8;
mod sentinel;
mod slots;
mod valkey;

pub use builder::RedisBuilder;
pub use cluster::{RedisCluster, RedisClusterBuilder};
pub use sentinel::{RedisSentinel, RedisSentinelBuilder};
pub use slots::SlotMove;

use std::ops::Deref;

use super::certificates::Certificates;
use super::error::Result;
use super::percent::encoded;
use super::resp::Client;
use super::server::Server;

/// A Redis server. It keeps its data in memory: a restart forgets it, unless
/// [`RedisBuilder::durable`] was asked for.
#[derive(Debug)]
pub struct Redis {
    server: Server,
    built: RedisBuilder,
}

impl Redis {
    /// Starts a server without a password.
    ///
    /// # Errors
    /// When it cannot be installed or started.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// Says more about the server before it is started.
    #[must_use]
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    /// Its address as clients take it, with the password of the default user.
    #[must_use]
    pub fn url(&self) -> String {
        let url = url(self.password(), self.port());
        if self.certificates().is_some() { url.replacen("redis:", "rediss:", 1) } else { url }
    }

    /// What a client of a server with TLS needs.
    #[must_use]
    pub fn certificates(&self) -> Option<Certificates> {
        self.built.certificates(self.resources())
    }

    /// The password of the default user.
    #[must_use]
    pub fn password(&self) -> Option<&str> {
        self.built.password_in_use()
    }

    /// A connection of its own, logged in as the default user. To a server with TLS it goes past
    /// TLS, through a socket in the server's folder.
    ///
    /// # Errors
    /// When the server does not answer or refuses the password.
    pub fn client(&self) -> Result<Client> {
        self.built.client(self.resources())
    }
}

/// Everything that a server can do.
impl Deref for Redis {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

fn url(password: Option<&str>, port: u16) -> String {
    let login = password.map(|password| format!(":{}@", encoded(password)));
    format!("redis://{}127.0.0.1:{port}", login.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_url_hides_what_would_end_the_password() {
        assert_eq!(super::url(None, 6379), "redis://127.0.0.1:6379");
        assert_eq!(super::url(Some("p@ss:/w"), 6379), "redis://:p%40ss%3A%2Fw@127.0.0.1:6379");
    }
}
