//! What is the same for all connections of a client.

use std::time::Duration;

use tollgate_net::tls::Tls;

use super::secret::Secret;

/// Who this client is to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Login {
    /// A user of the access list; without one, the default user.
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
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
    /// For a reply; a server that takes longer is left.
    pub(super) reply_timeout: Duration,
    /// To each server.
    pub(super) connections: usize,
    /// Of a cluster: whether keys of several slots that one node serves share a call.
    pub(super) shares_calls: bool,
}
