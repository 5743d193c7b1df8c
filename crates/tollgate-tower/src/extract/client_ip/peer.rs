//! The address of the peer: each server adds it to its requests in an extension of its own type.

use core::net::SocketAddr;

/// A request extension that holds the address of the peer.
pub trait Peer: Send + Sync + 'static {
    /// The address of the peer; a Unix socket has none.
    fn address(&self) -> Option<SocketAddr>;
}

/// For servers that insert the plain address.
impl Peer for SocketAddr {
    fn address(&self) -> Option<SocketAddr> {
        Some(*self)
    }
}
