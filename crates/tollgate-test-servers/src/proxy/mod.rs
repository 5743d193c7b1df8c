//! A TCP proxy in front of any server, with the faults of a network on command.
//!
//! `state` is shared by its threads, `acceptor` accepts connections, `connection` forwards one.

mod acceptor;
mod connection;
mod state;

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::error::{Error, Result};
use super::port::Port;

use state::ProxyState;

/// How long the threads of the proxy may take to react.
const REACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The treatment of bytes and of new connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Everything passes.
    #[default]
    Pass,
    /// Every round trip takes this much longer, half of it in each direction. Bytes that follow
    /// each other closely wait together.
    Latency(Duration),
    /// The server executes requests, and its replies are lost: the outcome is unknown.
    DropReplies,
    /// As `DropReplies`, but only the replies to what is counted ([`FaultProxy::counting`]), and
    /// whatever follows them: the write is lost, and the read before it is not.
    DropCounted,
    /// Bytes are lost in both directions; connections stay open, and new ones are accepted.
    Blackhole,
    /// Bytes wait in both directions, and arrive when the mode changes: a partition that heals.
    Hold,
    /// New connections are refused; those that exist pass.
    Refuse,
}

/// Counters of a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Connections that were accepted.
    pub connections: u64,
    /// Open connections.
    pub open: u64,
    /// Bytes sent to the server.
    pub to_server_bytes: u64,
    /// Bytes sent to clients.
    pub to_client_bytes: u64,
    /// Bytes to the server that were dropped.
    pub lost_to_server_bytes: u64,
    /// Bytes to clients that were dropped.
    pub lost_to_client_bytes: u64,
    /// How often clients sent the text of [`FaultProxy::counting`], lost or not.
    pub counted: u64,
}

/// A proxy in front of one server.
///
/// A connection that has lost bytes delivers no more in that direction, whatever the mode becomes:
/// bytes after a gap would be misread. Clients have to reconnect.
#[derive(Debug)]
pub struct FaultProxy {
    state: Arc<ProxyState>,
    acceptor: Option<JoinHandle<()>>,
    port: Port,
}

impl FaultProxy {
    /// Starts a proxy that forwards everything.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn to(server: SocketAddr) -> Result<Self> {
        Self::counting(server, "")
    }

    /// The same, and counts how often clients send a text, such as the first line of a request.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn counting(server: SocketAddr, text: &str) -> Result<Self> {
        let port = Port::reserve()?;
        let state = Arc::new(ProxyState::new(text));
        let listener = port.listen()?;
        let shared = Arc::clone(&state);
        let acceptor =
            thread::spawn(move || acceptor::accept_until_closed(listener, server, &shared));
        Ok(Self { state, acceptor: Some(acceptor), port })
    }

    /// Where clients connect.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// The port at which clients connect.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// Changes the mode; it applies to all bytes that arrive after this returns.
    ///
    /// # Errors
    /// When the proxy cannot listen again after refusing.
    pub fn set(&self, mode: Mode) -> Result<()> {
        self.state.set(mode);
        if mode == Mode::Refuse {
            self.wake();
        }
        let listens = mode != Mode::Refuse;
        self.state.wait(REACTION_TIMEOUT, |now| now.listens == listens)
    }

    /// Resets every connection: both ends see an RST, at once or moments later. The mode stays, and
    /// new connections may come.
    ///
    /// # Errors
    /// When the threads of the proxy do not react.
    pub fn reset(&self) -> Result<()> {
        let last = self.state.reset_all();
        self.state.wait(REACTION_TIMEOUT, |now| now.open.keys().all(|id| *id > last))
    }

    /// Its counters.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.state.traffic()
    }

    /// Waits until a condition on the traffic holds: until bytes were lost, for example.
    ///
    /// # Errors
    /// The traffic so far, once `limit` has passed.
    pub fn wait_until(&self, limit: Duration, holds: impl Fn(&Traffic) -> bool) -> Result<()> {
        let waited = self.state.wait(limit, |now| holds(&now.traffic));
        waited.map_err(|_| Error::new(format!("timeout: {:?}", self.traffic())))
    }

    /// The acceptor reads the state only at a connection.
    fn wake(&self) {
        drop(TcpStream::connect_timeout(&self.addr(), REACTION_TIMEOUT));
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.state.close();
        self.wake();
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        // After the acceptor has ended, no connection is added.
        let _ = self.reset();
    }
}
