//! One connection through the proxy: two sockets, and for each direction a thread that reads and
//! one that delivers, so that bytes can wait while more arrive.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

use super::Mode;
use super::state::{Current, ProxyState};
use crate::wait::Deadline;

const CONNECT: Duration = Duration::from_secs(5);
/// How often a waiting thread checks its connection: a peer that does not read must not prevent a
/// reset.
const RECHECK: Duration = Duration::from_millis(50);
const CHUNK_BYTES: usize = 16 * 1024;
/// The most chunks that wait; further bytes stay in the socket.
const CHUNKS_MAX: usize = 1_024;

#[derive(Debug)]
pub(super) struct Connection {
    client: TcpStream,
    server: TcpStream,
    is_reset: AtomicBool,
    /// Whether a counted text was sent while its replies are dropped.
    loses_replies: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

/// Bytes, and when they are due.
type Chunk = (Deadline, Vec<u8>);

impl Connection {
    fn new(client: TcpStream, server: TcpStream) -> io::Result<Self> {
        for socket in [&client, &server] {
            socket.set_nodelay(true)?;
            socket.set_write_timeout(Some(RECHECK))?;
        }
        let (is_reset, loses_replies) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { client, server, is_reset, loses_replies })
    }

    /// Ends the connection by an RST in both directions.
    pub(super) fn reset(&self) {
        self.is_reset.store(true, Ordering::SeqCst);
        for socket in [&self.client, &self.server] {
            reset_when_closed(socket);
            // Sends nothing and wakes the reader. A full shutdown would send a FIN.
            let _ = socket.shutdown(Shutdown::Read);
        }
    }

    fn is_reset(&self) -> bool {
        self.is_reset.load(Ordering::SeqCst)
    }
}

/// Forwards a connection until its end.
pub(super) fn serve(client: TcpStream, server: SocketAddr, state: &ProxyState) {
    let Ok(server) = TcpStream::connect_timeout(&server, CONNECT) else {
        // An accepted connection cannot be refused; a reset comes closest.
        reset_when_closed(&client);
        return;
    };
    let Ok(connection) = Connection::new(client, server) else {
        return;
    };
    let connection = Arc::new(connection);
    let Some(id) = state.add(&connection) else {
        return;
    };
    thread::scope(|scope| {
        for direction in [Direction::ToServer, Direction::ToClient] {
            let (chunks, due) = sync_channel(CHUNKS_MAX);
            let flow = Flow { connection: &connection, direction, state };
            scope.spawn(move || flow.read(&chunks));
            scope.spawn(move || flow.deliver(&due));
        }
    });
    // The sockets are closed before the connection is removed.
    drop(connection);
    state.remove(id);
}

/// One direction of a connection.
#[derive(Clone, Copy)]
struct Flow<'a> {
    connection: &'a Connection,
    direction: Direction,
    state: &'a ProxyState,
}

/// The result of an attempt to deliver bytes.
enum Step {
    Sent(usize),
    Lost,
    NotYet,
    Broken,
}

impl Flow<'_> {
    /// The sockets that the bytes come from and go to.
    const fn ends(&self) -> (&TcpStream, &TcpStream) {
        let Connection { client, server, .. } = self.connection;
        match self.direction {
            Direction::ToServer => (client, server),
            Direction::ToClient => (server, client),
        }
    }

    /// Reads until the end of the stream, which ends the channel.
    fn read(self, chunks: &SyncSender<Chunk>) {
        let (mut from, _) = self.ends();
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut seen = Vec::new();
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let delay = self.state.with_mode(|mode| match mode {
                Mode::Latency(latency) => latency / 2,
                _ => Duration::ZERO,
            });
            let bytes = buffer.get(..count).unwrap_or_default().to_vec();
            if self.direction == Direction::ToServer && !self.state.counts.is_empty() {
                let counted = count_new(&mut seen, &bytes, &self.state.counts);
                if counted > 0 && self.state.with_mode(|mode| mode == Mode::DropCounted) {
                    self.connection.loses_replies.store(true, Ordering::SeqCst);
                }
                self.state.change(|now| now.traffic.counted += counted);
            }
            if self.connection.is_reset() || chunks.send((Deadline::after(delay), bytes)).is_err() {
                return;
            }
        }
    }

    /// Delivers chunks when they are due, or drops them.
    fn deliver(self, chunks: &Receiver<Chunk>) {
        let (from, to) = self.ends();
        let is_reset = || self.connection.is_reset();
        let mut has_lost = false;
        for (due, bytes) in chunks {
            self.state.wait_for(due.left(), |_| is_reset());
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                match self.state.with_mode(|mode| self.step(rest, has_lost, mode)) {
                    Step::Sent(count) => rest = rest.get(count..).unwrap_or_default(),
                    Step::Lost => {
                        has_lost = true;
                        let count = widened(rest.len());
                        self.count(|[_, lost]| *lost += count);
                        rest = &[];
                    }
                    Step::NotYet => {
                        self.state.wait_for(RECHECK, |now| is_reset() || now.mode != Mode::Hold);
                    }
                    // The receiver has closed: the connection of the sender is closed too.
                    Step::Broken => {
                        if !is_reset() {
                            let _ = from.shutdown(Shutdown::Both);
                        }
                        return;
                    }
                }
            }
        }
        // A FIN is held or dropped as bytes are.
        while !self.state.wait_for(RECHECK, |now| now.mode != Mode::Hold || is_reset()) {}
        if self.state.with_mode(|mode| !has_lost && mode != Mode::Blackhole && !is_reset()) {
            let _ = to.shutdown(Shutdown::Write);
        }
    }

    /// Sends bytes, unless the mode holds or drops them.
    fn step(&self, bytes: &[u8], has_lost: bool, mode: Mode) -> Step {
        let to_client = self.direction == Direction::ToClient;
        let loses = match mode {
            Mode::Blackhole => true,
            Mode::DropReplies => to_client,
            Mode::DropCounted => to_client && self.connection.loses_replies.load(Ordering::SeqCst),
            Mode::Pass | Mode::Latency(_) | Mode::Hold | Mode::Refuse => false,
        };
        if self.connection.is_reset() {
            Step::Broken
        } else if loses || has_lost {
            Step::Lost
        } else if mode == Mode::Hold {
            Step::NotYet
        } else {
            self.send(bytes)
        }
    }

    /// Sends bytes, which are counted first: bytes that a peer has received are in the count.
    fn send(&self, bytes: &[u8]) -> Step {
        let (_, mut to) = self.ends();
        self.count(|[sent, _]| *sent += widened(bytes.len()));
        let written = to.write(bytes);
        let count = written.as_ref().map_or(0, |count| *count);
        self.count(|[sent, _]| *sent -= widened(bytes.len().saturating_sub(count)));
        match written {
            Ok(count) => Step::Sent(count),
            Err(error) if is_temporary(&error) => Step::NotYet,
            Err(_) => Step::Broken,
        }
    }

    /// Changes the counters of this direction: bytes sent, and bytes lost.
    fn count(&self, change: impl FnOnce([&mut u64; 2])) {
        self.state.change(|Current { traffic, .. }| match self.direction {
            Direction::ToServer => {
                change([&mut traffic.to_server_bytes, &mut traffic.lost_to_server_bytes]);
            }
            Direction::ToClient => {
                change([&mut traffic.to_client_bytes, &mut traffic.lost_to_client_bytes]);
            }
        });
    }
}

/// How often a text ends in these bytes. Earlier bytes are kept as far as they may begin one.
fn count_new(seen: &mut Vec<u8>, bytes: &[u8], text: &[u8]) -> u64 {
    seen.extend_from_slice(bytes);
    let count = seen.windows(text.len()).filter(|window| *window == text).count();
    let keep = text.len().saturating_sub(1).min(seen.len());
    seen.drain(..seen.len() - keep);
    widened(count)
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Makes closing send an RST instead of a FIN.
fn reset_when_closed(socket: &TcpStream) {
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

fn widened(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_counted_however_it_is_cut() {
        let whole = b"POST /a x POST /b y POST /a";
        for cut in 0..whole.len() {
            let (head, tail) = whole.split_at(cut);
            let mut seen = Vec::new();
            let count =
                count_new(&mut seen, head, b"POST /a") + count_new(&mut seen, tail, b"POST /a");
            assert_eq!(count, 2, "cut at {cut}");
        }
    }
}
