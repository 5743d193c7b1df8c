//! One connection through the proxy: two sockets, and for each direction a thread that reads and
//! one that delivers, so that bytes can be on their way while more arrive.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

use super::board::Board;
use super::{Mode, Traffic};
use crate::wait::Deadline;

const CONNECT: Duration = Duration::from_secs(5);
/// A peer that does not read must not keep a link from being cut.
const LOOK_UP: Duration = Duration::from_millis(50);
const CHUNK_BYTES: usize = 16 * 1024;
/// Chunks on their way; more of them wait in the socket, as backpressure does.
const ON_THE_WAY: usize = 1_024;

#[derive(Debug)]
pub(super) struct Link {
    client: TcpStream,
    server: TcpStream,
    is_cut: AtomicBool,
    /// Whether something was counted on it while replies to that are lost.
    loses_replies: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

/// Bytes, and when they are due.
type Chunk = (Deadline, Vec<u8>);

impl Link {
    fn new(client: TcpStream, server: TcpStream) -> io::Result<Self> {
        for socket in [&client, &server] {
            socket.set_nodelay(true)?;
            socket.set_write_timeout(Some(LOOK_UP))?;
        }
        let (is_cut, loses_replies) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { client, server, is_cut, loses_replies })
    }

    /// Ends the link by an RST in both directions.
    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        for socket in [&self.client, &self.server] {
            reset_when_closed(socket);
            // Sends nothing and wakes the reader. A full shutdown would send a FIN.
            let _ = socket.shutdown(Shutdown::Read);
        }
    }

    fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }

    const fn ends(&self, direction: Direction) -> (&TcpStream, &TcpStream) {
        match direction {
            Direction::ToServer => (&self.client, &self.server),
            Direction::ToClient => (&self.server, &self.client),
        }
    }
}

/// Carries a connection to its end.
pub(super) fn carry(client: TcpStream, server: SocketAddr, board: &Board) {
    let Ok(server) = TcpStream::connect_timeout(&server, CONNECT) else {
        // An accepted connection cannot be refused; a reset comes closest.
        reset_when_closed(&client);
        return;
    };
    let Ok(link) = Link::new(client, server) else {
        return;
    };
    let link = Arc::new(link);
    let Some(id) = board.add(&link) else {
        return;
    };
    thread::scope(|scope| {
        for direction in [Direction::ToServer, Direction::ToClient] {
            let (chunks, due) = sync_channel(ON_THE_WAY);
            let link = &link;
            scope.spawn(move || read(link, direction, board, &chunks));
            scope.spawn(move || deliver(link, direction, board, &due));
        }
    });
    // The sockets are closed before the link is removed.
    drop(link);
    board.remove(id);
}

/// Reads until the end of the stream, which the channel's end passes on.
fn read(link: &Link, direction: Direction, board: &Board, chunks: &SyncSender<Chunk>) {
    let (mut from, _) = link.ends(direction);
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut seen = Vec::new();
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let delay = board.under_mode(|mode| match mode {
            Mode::Latency(latency) => latency / 2,
            _ => Duration::ZERO,
        });
        let bytes = buffer.get(..count).unwrap_or_default().to_vec();
        if direction == Direction::ToServer && !board.counts.is_empty() {
            let counted = count_new(&mut seen, &bytes, &board.counts);
            if counted > 0 && board.under_mode(|mode| mode == Mode::DropCounted) {
                link.loses_replies.store(true, Ordering::SeqCst);
            }
            board.change(|now| now.traffic.counted += counted);
        }
        if link.is_cut() || chunks.send((Deadline::after(delay), bytes)).is_err() {
            return;
        }
    }
}

/// How often a text ends in these bytes; what was seen before is kept as far as it may begin one.
fn count_new(seen: &mut Vec<u8>, bytes: &[u8], text: &[u8]) -> u64 {
    seen.extend_from_slice(bytes);
    let count = seen.windows(text.len()).filter(|window| *window == text).count();
    let keep = text.len().saturating_sub(1).min(seen.len());
    seen.drain(..seen.len() - keep);
    widened(count)
}

/// Delivers what is due, or loses it.
fn deliver(link: &Link, direction: Direction, board: &Board, chunks: &Receiver<Chunk>) {
    let mut has_lost = false;
    for (due, bytes) in chunks {
        board.wait_for_ever_or(due.left(), |_| link.is_cut());
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let fate = board.under_mode(|mode| match fate(link, direction, has_lost, mode) {
                Step::Sent(_) => send(link, direction, rest, board),
                other => other,
            });
            match fate {
                Step::Sent(count) => rest = rest.get(count..).unwrap_or_default(),
                Step::Lost => {
                    has_lost = true;
                    let count = widened(rest.len());
                    board.change(|now| *lost(&mut now.traffic, direction) += count);
                    rest = &[];
                }
                Step::NotYet => {
                    board.wait_for_ever_or(LOOK_UP, |now| link.is_cut() || now.mode != Mode::Hold);
                }
                Step::Broken => return hang_up(link, direction),
            }
        }
    }
    // A FIN is held or lost as bytes are.
    let may_leave = |mode| mode != Mode::Hold || link.is_cut();
    while !board.wait_for_ever_or(LOOK_UP, |now| may_leave(now.mode)) {}
    let passes = |mode| !has_lost && mode != Mode::Blackhole && !link.is_cut();
    if board.under_mode(passes) {
        let (_, to) = link.ends(direction);
        let _ = to.shutdown(Shutdown::Write);
    }
}

enum Step {
    Sent(usize),
    Lost,
    NotYet,
    Broken,
}

/// What is to happen to bytes; `Sent` means that they are to be sent.
fn fate(link: &Link, direction: Direction, has_lost: bool, mode: Mode) -> Step {
    let loses = match mode {
        Mode::Blackhole => true,
        Mode::DropReplies => direction == Direction::ToClient,
        Mode::DropCounted => {
            direction == Direction::ToClient && link.loses_replies.load(Ordering::SeqCst)
        }
        Mode::Pass | Mode::Latency(_) | Mode::Hold | Mode::Refuse => false,
    };
    if link.is_cut() {
        Step::Broken
    } else if loses || has_lost {
        Step::Lost
    } else if mode == Mode::Hold {
        Step::NotYet
    } else {
        Step::Sent(0)
    }
}

/// Sends bytes, which are counted first: bytes that a peer has received are in the count.
fn send(link: &Link, direction: Direction, bytes: &[u8], board: &Board) -> Step {
    let (_, mut to) = link.ends(direction);
    board.change(|now| *sent(&mut now.traffic, direction) += widened(bytes.len()));
    let written = to.write(bytes);
    let count = written.as_ref().map_or(0, |count| *count);
    let not_sent = widened(bytes.len().saturating_sub(count));
    board.change(|now| *sent(&mut now.traffic, direction) -= not_sent);
    match written {
        Ok(count) => Step::Sent(count),
        Err(error) if is_temporary(&error) => Step::NotYet,
        Err(_) => Step::Broken,
    }
}

/// The receiver is gone: closes the connection of the sender.
fn hang_up(link: &Link, direction: Direction) {
    let (from, _) = link.ends(direction);
    if !link.is_cut() {
        let _ = from.shutdown(Shutdown::Both);
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Makes closing send an RST instead of a FIN.
fn reset_when_closed(socket: &TcpStream) {
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

const fn sent(traffic: &mut Traffic, direction: Direction) -> &mut u64 {
    match direction {
        Direction::ToServer => &mut traffic.to_server_bytes,
        Direction::ToClient => &mut traffic.to_client_bytes,
    }
}

const fn lost(traffic: &mut Traffic, direction: Direction) -> &mut u64 {
    match direction {
        Direction::ToServer => &mut traffic.lost_to_server_bytes,
        Direction::ToClient => &mut traffic.lost_to_client_bytes,
    }
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
