//! One Redis server; `cluster` and `sentinel` build on it.

mod builder;
mod cluster;
mod gossip;
mod programs;
mod sentinel;
mod slots;

pub use builder::RedisBuilder;
pub use cluster::RedisCluster;
pub use sentinel::RedisSentinel;
pub use slots::SlotMove;

use std::ops::Deref;

use super::certificates::Certificates;
use super::error::Result;
use super::percent::encoded;
use super::resp::Client;
use super::server::Server;

/// A Redis server. Its data is in memory, and lost at a restart unless [`RedisBuilder::durable`]
/// is set.
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

    /// A server with other settings.
    #[must_use]
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    /// Its URL, with the password of the default user.
    #[must_use]
    pub fn url(&self) -> String {
        let url = url(self.password(), self.port());
        if self.certificates().is_some() { url.replacen("redis:", "rediss:", 1) } else { url }
    }

    /// The certificates of a server with TLS.
    #[must_use]
    pub fn certificates(&self) -> Option<Certificates> {
        self.built.certificates(self.resources())
    }

    /// The password of the default user.
    #[must_use]
    pub fn password(&self) -> Option<&str> {
        self.built.password_in_use()
    }

    /// A new connection, authenticated as the default user. A server with TLS is reached without
    /// it, through a socket in its folder.
    ///
    /// # Errors
    /// When the server does not answer or refuses the password.
    pub fn client(&self) -> Result<Client> {
        self.built.client(self.resources())
    }
}

/// The methods of a server.
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
