//! One connection that many callers share.
//!
//! A task of its own, the keeper, reads and writes. It takes all that has gathered in the queue, writes
//! it at once, and hands replies out in the order of the commands. Before it takes, it lets the tasks
//! that are ready run once: those that it has just woken append their next commands, and one write
//! carries them all. A caller who was alone the last time has nobody to wait for, and goes at once.
//! While many commands are under way it waits for a few more, or for the next reply: the server is busy
//! with those that it has, and small writes are what costs.
//!
//! After some calls by callers who were alone, the next one drives the connection itself (`alone`):
//! the keeper sleeps, and the reply reaches the caller without a second task. It stays asleep until
//! somebody else appends, or the caller goes away; then it takes over, and whoever drove before waits
//! as everybody else does. Whose turn it is, is a number that grows with every change.
//!
//! When the connection ends, a command of which not all bytes were written has certainly not run
//! and fails as unsent; of any other nobody knows. A server that says that it cannot serve
//! (`READONLY`, for example) gets no more commands, and is left once those under way are answered.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use tollgate_core::{Code, Error, Result};

use super::queue::{GATHERED, Phase, Queue, Waiter, closed};
use super::resp::Parser;
use super::stream::Stream;
use super::wire::{is_refusal, lost};
use crate::meaning::meaning_of;
use crate::transport::Reply;

/// Read at once.
const CHUNK: usize = 64 * 1024;
/// While commands are under way, so many of them make one more worth a write: the server is busy, and
/// a write costs as much as several commands. Whoever waits for others to join does so until the next
/// reply at most, and only while there are more than a few.
const WORTH_A_WRITE: usize = 2;
/// A buffer that has grown larger than this is given back.
const KEPT: usize = 1024 * 1024;
/// After so many calls in a row by callers who were alone, callers drive themselves. Among a few
/// callers, each of whom is sometimes alone, taking turns would cost more than it saves.
const LONELY: u32 = 16;

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// It broke.
    Lost {
        /// Whether it has answered anything before.
        was_used: bool,
    },
    /// The server said that it cannot serve.
    Refused,
    /// The queue was closed.
    Closed,
}

/// What became of a caller's attempt to drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driven {
    /// It drives.
    Mine,
    /// What cannot be written at once, or has ended, is not for somebody who may go away: the keeper
    /// must be woken.
    Stuck,
    /// The keeper has woken up already.
    TakenOver,
}

/// Drives a connection until it ends. By then, nobody waits for it any more.
#[derive(Debug)]
pub(super) struct Connection {
    queue: Arc<Queue>,
    stream: Stream,
    parser: Parser,
    chunk: Box<[u8]>,
    /// What is being written, and how far.
    writing: Vec<u8>,
    at: usize,
    is_flushed: bool,
    /// Bytes that were written, and taken from the queue, since the beginning.
    written: u64,
    taken: u64,
    has_yielded: bool,
    /// How many times in a row one caller alone had appended when the queue was taken.
    alone: u32,
    /// Who drives: grows whenever that changes, also from one connection to the next.
    pub(super) turn: u64,
    /// The keeper, and the caller who drives instead.
    keeper: Waker,
    driver: Option<Waker>,
    /// Commands that were taken, oldest first.
    pending: VecDeque<Pending>,
    begun: Instant,
    patience: Duration,
    alarm: Pin<Box<Sleep>>,
    is_armed: bool,
    was_used: bool,
    /// The server cannot serve, for this reason.
    refusal: Option<Error>,
    is_closed: bool,
    has_ended: bool,
}

#[derive(Debug)]
struct Pending {
    waiter: Waiter,
    /// When fewer bytes than this were written, none of its commands has run.
    runs_from: u64,
    /// When it was taken, in microseconds after the connection began.
    since: u64,
}

impl Connection {
    /// Over a stream on which all greetings are done. Nothing happens until it is polled.
    pub(super) fn new(queue: Arc<Queue>, stream: Stream, patience: Duration) -> Self {
        Self {
            queue,
            stream,
            parser: Parser::default(),
            chunk: vec![0; CHUNK].into_boxed_slice(),
            writing: Vec::new(),
            at: 0,
            is_flushed: true,
            written: 0,
            taken: 0,
            has_yielded: false,
            alone: 1,
            turn: 0,
            keeper: Waker::noop().clone(),
            driver: None,
            pending: VecDeque::new(),
            begun: Instant::now(),
            patience,
            alarm: Box::pin(sleep_until(Instant::now() + patience)),
            is_armed: false,
            was_used: false,
            refusal: None,
            is_closed: false,
            has_ended: false,
        }
    }

    /// Takes no more commands, for this reason, and ends once those under way are answered.
    pub(super) fn leave(&mut self, why: Error) {
        self.queue.enter(Phase::Down(why.clone()));
        self.refusal = Some(why);
    }

    /// Reads until nothing more is there, and hands out the replies.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<()> {
        loop {
            let mut buffer = ReadBuf::new(&mut self.chunk);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Pending => return Ok(()),
                Poll::Ready(done) => done.map_err(|error| lost(&error))?,
            }
            if buffer.filled().is_empty() {
                return Err(lost(&io::ErrorKind::UnexpectedEof.into()));
            }
            self.parser.feed(buffer.filled());
            self.queue.was_heard();
            while let Some(reply) = self.parser.reply()? {
                self.hand_out(reply)?;
            }
        }
    }

    fn hand_out(&mut self, reply: Reply) -> Result<()> {
        let Some(oldest) = self.pending.front() else {
            return Err(Error::new(Code::StoreUnavailable, "Redis answered what nobody asked"));
        };
        let (runs_from, since) = (oldest.runs_from, oldest.since);
        match &reply {
            Reply::Error(text) if is_refusal(text) => self.leave(meaning_of(text)),
            _ => self.was_used = true,
        }
        let waiter = self.pending.pop_front().and_then(|oldest| oldest.waiter.receive(reply));
        if let Some(waiter) = waiter {
            self.pending.push_front(Pending { waiter, runs_from, since });
        }
        Ok(())
    }

    /// Writes all that has gathered, until nothing is left or the other side takes no more.
    fn write(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            while let Some(rest) = self.writing.get(self.at..).filter(|rest| !rest.is_empty()) {
                let count = ready!(Pin::new(&mut self.stream).poll_write(cx, rest));
                let count = count.map_err(|error| lost(&error))?;
                if count == 0 {
                    return Poll::Ready(Err(lost(&io::ErrorKind::WriteZero.into())));
                }
                self.at += count;
                self.written += count as u64;
            }
            if !self.is_flushed {
                let flushed = ready!(Pin::new(&mut self.stream).poll_flush(cx));
                flushed.map_err(|error| lost(&error))?;
                self.is_flushed = true;
            }
            if !self.take(cx) {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Takes what has gathered; returns whether it took anything. If not, it will be woken.
    fn take(&mut self, cx: &Context<'_>) -> bool {
        self.writing.clear();
        self.at = 0;
        if self.writing.capacity() > KEPT {
            self.writing = Vec::new();
        }
        let mut state = self.queue.lock();
        let enough = (self.pending.len() / WORTH_A_WRITE).max(1);
        if state.waiting.len() < enough && state.bytes.len() < GATHERED {
            self.has_yielded = false;
            self.is_closed = matches!(state.phase, Phase::Closed);
            state.enough = enough;
            // A caller who drives leaves the keeper asleep.
            if self.driver.is_none() {
                state.waker = Some(cx.waker().clone());
            }
            return false;
        }
        let is_alone = self.alone > 0 && self.pending.is_empty();
        if enough == 1 && !is_alone && !self.has_yielded && state.bytes.len() < GATHERED {
            self.has_yielded = true;
            cx.waker().wake_by_ref();
            return false;
        }
        self.has_yielded = false;
        let is_single = state.waiting.len() == 1 && self.pending.is_empty();
        self.alone = if is_single { self.alone.saturating_add(1) } else { 0 };
        self.is_flushed = false;
        std::mem::swap(&mut state.bytes, &mut self.writing);
        let since = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        for waiting in state.waiting.drain(..) {
            let runs_from = self.taken + waiting.first_bytes as u64;
            self.taken += waiting.bytes as u64;
            self.pending.push_back(Pending { waiter: waiting.waiter, runs_from, since });
        }
        true
    }

    /// Whether the oldest command has waited too long. The alarm is set rarely, and checked when it
    /// rings: most commands never touch it.
    fn is_overdue(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            let Some(oldest) = self.pending.front() else { return false };
            let due = self.begun + Duration::from_micros(oldest.since) + self.patience;
            if !self.is_armed {
                self.alarm.as_mut().reset(due);
                self.is_armed = true;
            }
            if self.alarm.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.is_armed = false;
            if due <= Instant::now() {
                return true;
            }
        }
    }

    fn work(&mut self, cx: &mut Context<'_>) -> Result<()> {
        self.read(cx)?;
        if let Poll::Ready(result) = self.write(cx) {
            result?;
        }
        if self.is_overdue(cx) {
            let patience = self.patience.as_millis();
            let message = format!("Redis did not answer within {patience} ms");
            return Err(Error::new(Code::StoreUnavailable, message));
        }
        Ok(())
    }

    /// Tells everybody who waits, whoever drives included. Nobody can join them any more.
    fn end(&mut self, why: &Error) {
        self.has_ended = true;
        self.queue.enter(Phase::Down(why.clone()));
        let not_sent = why.clone().not_sent();
        for pending in self.pending.drain(..) {
            let is_not_sent = self.written < pending.runs_from;
            pending.waiter.fail(if is_not_sent { &not_sent } else { why });
        }
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}

/// Driven by the keeper.
impl Future for Connection {
    type Output = End;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<End> {
        let this = self.get_mut();
        this.take_over(cx);
        if !this.has_ended
            && let Err(why) = this.work(cx)
        {
            this.end(&why);
        }
        if this.has_ended {
            return Poll::Ready(match this.refusal {
                Some(_) => End::Refused,
                None => End::Lost { was_used: this.was_used },
            });
        }
        if !this.pending.is_empty() {
            return Poll::Pending;
        }
        if let Some(refusal) = this.refusal.take() {
            this.end(&refusal);
            return Poll::Ready(End::Refused);
        }
        if this.is_closed {
            this.end(&closed());
            return Poll::Ready(End::Closed);
        }
        Poll::Pending
    }
}

/// Driven by a caller who is alone.
impl Connection {
    /// Lets a caller drive from now on, if nobody else waits: its turn.
    pub(super) fn begin(&mut self) -> Option<u64> {
        let is_free = self.pending.is_empty() && self.at == self.writing.len() && self.is_flushed;
        if !is_free || self.alone < LONELY || self.has_ended || self.refusal.is_some() {
            return None;
        }
        self.turn += 1;
        Some(self.turn)
    }

    /// Works for the caller whose turn it is.
    pub(super) fn drive(&mut self, turn: u64, cx: &mut Context<'_>) -> Driven {
        if self.turn != turn {
            return Driven::TakenOver;
        }
        match &mut self.driver {
            Some(driver) => driver.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        if let Err(why) = self.work(cx) {
            self.end(&why);
        }
        let is_written = self.at == self.writing.len() && self.is_flushed && !self.has_yielded;
        match is_written && !self.has_ended && self.refusal.is_none() {
            true => Driven::Mine,
            false => Driven::Stuck,
        }
    }

    /// The caller whose turn it was has its reply: what arrives from now on is for the keeper to see.
    /// Returns whether the keeper may go on sleeping.
    pub(super) fn rest(&mut self) -> bool {
        self.driver = None;
        let keeper = self.keeper.clone();
        if let Err(why) = self.read(&mut Context::from_waker(&keeper)) {
            self.end(&why);
        }
        !self.has_ended && self.pending.is_empty()
    }

    fn take_over(&mut self, cx: &Context<'_>) {
        self.turn += 1;
        self.keeper.clone_from(cx.waker());
        if let Some(driver) = self.driver.take() {
            self.alone = 0;
            driver.wake();
        }
    }
}

/// A runtime that shuts down drops the connection in the middle of its work.
impl Drop for Connection {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end(&Error::new(Code::StoreUnavailable, "the runtime of the connection ended"));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::client::alone::Desk;

    /// Somebody drives the first connection, and does not look until another one drives the second.
    #[tokio::test]
    async fn a_turn_ends_with_its_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let desk = Desk::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut turns: Vec<u64> = Vec::new();
        for _ in 0..3 {
            let stream = Stream::Plain(TcpStream::connect(address).await.unwrap());
            let queue = Arc::new(Queue::new());
            let seated = desk.seat(Connection::new(queue, stream, Duration::from_secs(60)));
            let mut guard = desk.lock();
            let connection = guard.as_mut().unwrap();
            connection.alone = LONELY;
            for turn in &turns {
                assert_eq!(connection.drive(*turn, &mut cx), Driven::TakenOver, "{turns:?}");
            }
            for _ in 0..3 {
                turns.push(connection.begin().unwrap());
            }
            let (last, before) = turns.split_last().unwrap();
            for turn in before {
                assert_eq!(connection.drive(*turn, &mut cx), Driven::TakenOver, "{turns:?}");
            }
            assert_eq!(connection.drive(*last, &mut cx), Driven::Mine);
            drop(guard);
            drop(seated);
        }
    }
}
