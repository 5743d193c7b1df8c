//! Which server holds a key, for the breaker of the limiter, and how slow that server is.

use core::time::Duration;

/// A server that fails alone: a node of a cluster, or the only server of a store.
///
/// The limiter keeps one breaker for each, so a dead node leaves the keys of the others alone. A
/// store numbers its servers from 0 on, as low as it can: the numbers are places of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Endpoint(u16);

impl Endpoint {
    /// The only server of a store, and the first one of several.
    pub const FIRST: Self = Self(0);

    /// The server with this number. Servers that share a number share a breaker.
    #[must_use]
    pub const fn numbered(number: u16) -> Self {
        Self(number)
    }

    pub(crate) const fn place(self) -> usize {
        self.0 as usize
    }
}

/// The last answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastAnswer {
    /// The server, for people: `127.0.0.1:6379`.
    pub server: String,
    /// How long it took.
    pub took: Duration,
}

impl LastAnswer {
    /// An answer of a server.
    #[must_use]
    pub fn new(server: impl Into<String>, took: Duration) -> Self {
        Self { server: server.into(), took }
    }
}
