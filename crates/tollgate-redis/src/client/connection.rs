//! One connection that many callers share.
//!
//! A single future reads and writes. It takes all that has gathered in the queue, writes it at once,
//! and hands replies out in the order of the commands. Before it takes, it lets the tasks that are
//! ready run once: those that it has just woken append their next commands, and one write carries
//! them all. A caller who was alone the last time has nobody to wait for, and goes at once.
//!
//! When the connection ends, a command of which not all bytes were written has certainly not run
//! and fails as unsent; of any other nobody knows. A server that says that it cannot serve
//! (`READONLY`, for example) gets no more commands, and is left once those under way are answered.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use tollgate_core::{Code, Error, Result};

use super::queue::{Phase, Queue, Waiter, closed};
use super::resp::Parser;
use super::stream::Stream;
use super::wire::lost;
use crate::transport::{Reply, meaning_of};

/// Read at once.
const CHUNK: usize = 64 * 1024;
/// So much is worth a write of its own, without waiting for more.
const GATHERED: usize = 64 * 1024;
/// A buffer that has grown larger than this is given back.
const KEPT: usize = 1024 * 1024;

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

/// Drives a connection until it ends. By then, nobody waits for it any more.
#[derive(Debug)]
pub(super) struct Connection<'a> {
    queue: &'a Queue,
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
    /// Whether one caller alone had appended when the queue was last taken.
    was_alone: bool,
    /// Commands that were taken, oldest first.
    pending: VecDeque<Pending>,
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
    since: Instant,
}

impl<'a> Connection<'a> {
    /// Over a stream on which all greetings are done. Nothing happens until it is awaited.
    pub(super) fn new(queue: &'a Queue, stream: Stream, patience: Duration) -> Self {
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
            was_alone: true,
            pending: VecDeque::new(),
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
        self.queue.enter(Phase::Down(why.again()));
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
        if state.waiting.is_empty() {
            self.has_yielded = false;
            self.is_closed = matches!(state.phase, Phase::Closed);
            state.waker = Some(cx.waker().clone());
            return false;
        }
        let is_alone = self.was_alone && self.pending.is_empty();
        if !is_alone && !self.has_yielded && state.bytes.len() < GATHERED {
            self.has_yielded = true;
            cx.waker().wake_by_ref();
            return false;
        }
        self.has_yielded = false;
        self.was_alone = state.waiting.len() == 1;
        self.is_flushed = false;
        std::mem::swap(&mut state.bytes, &mut self.writing);
        let since = Instant::now();
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
            let due = oldest.since + self.patience;
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

    /// Tells everybody who waits. Nobody can join them any more.
    fn end(&mut self, why: &Error) {
        self.has_ended = true;
        self.queue.enter(Phase::Down(why.again()));
        let unsent = why.again().unsent();
        for pending in self.pending.drain(..) {
            let is_unsent = self.written < pending.runs_from;
            pending.waiter.fail(if is_unsent { &unsent } else { why });
        }
    }
}

impl Future for Connection<'_> {
    type Output = End;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<End> {
        let this = self.get_mut();
        if let Err(why) = this.work(cx) {
            this.end(&why);
            let end = match this.refusal {
                Some(_) => End::Refused,
                None => End::Lost { was_used: this.was_used },
            };
            return Poll::Ready(end);
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

/// A runtime that shuts down drops the connection in the middle of its work.
impl Drop for Connection<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end(&Error::new(Code::StoreUnavailable, "the runtime of the connection ended"));
        }
    }
}

/// Whether a server that answers this cannot serve anybody now, so that asking for another
/// connection, perhaps to another server, is better than asking again.
fn is_refusal(text: &str) -> bool {
    let kind = text.split(' ').next().unwrap_or_default();
    matches!(kind, "READONLY" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN")
}
