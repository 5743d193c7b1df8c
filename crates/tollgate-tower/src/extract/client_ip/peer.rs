//! Where the address of the peer comes from: each server leaves it in an extension of its own.

use core::net::SocketAddr;

/// A request extension that says who is connected.
pub trait Peer: Send + Sync + 'static {
    /// The address of the peer; absent where there is none, as on a Unix socket.
    fn address(&self) -> Option<SocketAddr>;
}

/// For servers that insert the plain address.
impl Peer for SocketAddr {
    fn address(&self) -> Option<SocketAddr> {
        Some(*self)
    }
}
