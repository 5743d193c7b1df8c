//! What is the same for all connections of a client.

use core::fmt;
use std::time::Duration;

use tollgate_net::tls::Tls;

/// The user and password of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Login {
    /// A user of the access list; without one, the default user.
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
}

/// A text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for the server.
    pub(crate) const fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// How to make and keep connections.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) login: Login,
    pub(super) database: u32,
    /// What `CLIENT LIST` shows.
    pub(super) name: Option<String>,
    pub(super) tls: Option<Tls>,
    /// For everything until the first command may be sent.
    pub(super) connect_timeout: Duration,
    /// For a reply; a connection on which one takes longer is given up.
    pub(super) reply_timeout: Duration,
}
