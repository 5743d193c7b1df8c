//! Redis on its own; `cluster` and `sentinel` build on it.

mod builder;
mod cluster;
mod slots;

pub use builder::RedisBuilder;
pub use cluster::{RedisCluster, RedisClusterBuilder};
pub use slots::SlotMove;

use std::fmt::Write;
use std::ops::Deref;

use super::error::Result;
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
        url(self.password(), self.port())
    }

    /// The password of the default user.
    #[must_use]
    pub fn password(&self) -> Option<&str> {
        self.built.password_in_use()
    }

    /// A connection of its own, logged in as the default user.
    ///
    /// # Errors
    /// When the server does not answer or refuses the password.
    pub fn client(&self) -> Result<Client> {
        self.built.client(self.place())
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
    let login = password.map(|password| format!(":{}@", percent_encoded(password)));
    format!("redis://{}127.0.0.1:{port}", login.unwrap_or_default())
}

/// A password may hold what would end it in a URL.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing into a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_url_hides_what_would_end_the_password() {
        assert_eq!(super::url(None, 6379), "redis://127.0.0.1:6379");
        assert_eq!(super::url(Some("p@ss:/w"), 6379), "redis://:p%40ss%3A%2Fw@127.0.0.1:6379");
    }
}
