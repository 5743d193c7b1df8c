//! A TCP proxy that does to connections what networks do, on command.
//!
//! It stands in front of any server. `board` is what its threads share, `acceptor` takes
//! connections in, `link` carries one of them.

mod acceptor;
mod board;
mod link;

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::error::{Error, Result};
use super::port::Port;

use board::Board;

/// How long the proxy's own threads may take to follow.
const FOLLOW: Duration = Duration::from_secs(10);

/// What happens to bytes and to new connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Nothing: everything passes.
    #[default]
    Pass,
    /// Every round trip takes so much longer, half of it on the way there. Bytes that follow each
    /// other closely wait together, as on a long wire.
    Latency(Duration),
    /// Requests reach the server, and it acts; its replies are lost. The client cannot know.
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

/// What a proxy has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Connections that were accepted.
    pub connections: u64,
    /// Those that are open now.
    pub open: u64,
    /// Bytes that the server was sent.
    pub to_server_bytes: u64,
    /// Bytes that clients were sent.
    pub to_client_bytes: u64,
    /// Bytes that were lost on purpose on the way to the server.
    pub lost_to_server_bytes: u64,
    /// Bytes that were lost on purpose on the way to a client.
    pub lost_to_client_bytes: u64,
    /// How often clients sent the text of [`FaultProxy::counting`], lost or not.
    pub counted: u64,
}

/// A proxy in front of one server.
///
/// A connection that has lost bytes never carries any again in that direction, whatever the mode
/// becomes: what follows a gap would be misread. Clients must open another, as they must after a
/// real loss.
#[derive(Debug)]
pub struct FaultProxy {
    board: Arc<Board>,
    acceptor: Option<JoinHandle<()>>,
    port: Port,
}

impl FaultProxy {
    /// Stands in front of a server, and lets everything pass.
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
        let board = Arc::new(Board::new(text));
        let listener = port.listen()?;
        let shared = Arc::clone(&board);
        let acceptor = thread::spawn(move || acceptor::accept_for_ever(listener, server, &shared));
        Ok(Self { board, acceptor: Some(acceptor), port })
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

    /// Changes the mode; what arrives after this returns meets the new one.
    ///
    /// # Errors
    /// When the proxy cannot listen again after refusing.
    pub fn set(&self, mode: Mode) -> Result<()> {
        self.board.set(mode);
        if mode == Mode::Refuse {
            self.wake();
        }
        let listens = mode != Mode::Refuse;
        self.board.wait(FOLLOW, |now| now.listens == listens)
    }

    /// Resets every connection: both ends see an RST, at once or moments later. The mode stays, and
    /// new connections may come.
    ///
    /// # Errors
    /// When the proxy's own threads do not follow.
    pub fn reset(&self) -> Result<()> {
        let last = self.board.cut_all();
        self.board.wait(FOLLOW, |now| now.links.keys().all(|id| *id > last))
    }

    /// What it has seen so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.board.traffic()
    }

    /// Waits until the traffic is as it should be: for bytes that were lost, for example, which no
    /// client can see.
    ///
    /// # Errors
    /// The traffic so far, once `limit` has passed.
    pub fn wait_until(&self, limit: Duration, is_right: impl Fn(&Traffic) -> bool) -> Result<()> {
        let waited = self.board.wait(limit, |now| is_right(&now.traffic));
        waited.map_err(|_| Error::new(format!("waited in vain: {:?}", self.traffic())))
    }

    /// The acceptor reads the state only at a connection.
    fn wake(&self) {
        drop(TcpStream::connect_timeout(&self.addr(), FOLLOW));
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.board.close();
        self.wake();
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        // After the acceptor, who makes links, has ended.
        let _ = self.reset();
    }
}
