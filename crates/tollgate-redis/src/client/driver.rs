//! The task behind a shared connection: it connects, writes commands and hands out replies.
//!
//! The driver takes all that has gathered in the queue, writes it at once, and hands replies out in
//! the order of the commands. Before it takes, it yields once to the tasks that are ready: replies
//! that it has just handed out wake many callers, and their next commands share a write.
//!
//! When a connection ends, a command of which not all bytes were written has certainly not run and
//! fails as not sent; the outcome of any other is unknown. A server that cannot serve (`READONLY`,
//! for example) gets no more commands, and the connection ends once those under way are answered.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use tollgate_core::store::{Backoff, Jitter};
use tollgate_core::{Code, Error, Result};

use super::exclusive::{lost, no_reply_within, unexpected};
use super::resp::Parser;
use super::shared::{Phase, Queue, Started, Waiter, closed};
use super::stream::Stream;
use super::target::Target;
use crate::error_reply::error_of;
use crate::transport::Reply;

/// Read at once.
const CHUNK: usize = 64 * 1024;
/// A buffer that has grown larger than this is given back.
const KEPT: usize = 1024 * 1024;
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// A call ends a wait only after this time, or up to twice as long. A breaker sends a call every
/// 100 ms: that finds a server again which is back.
const LEAST_WAIT_MS: u64 = 25;

/// Keeps a server connected until the queue is closed.
pub(super) async fn run(started: Started, target: Arc<Target>) {
    let queue = &started.0;
    let (mut backoff, jitter) = (Backoff::endless(FIRST_WAIT, LONGEST_WAIT), Jitter::new());
    while !queue.is_closed() {
        let start = Instant::now();
        let end = connect_and_drive(queue, &target).await;
        if start.elapsed() > LONGEST_WAIT {
            backoff.reset();
        }
        match end {
            Err(error) => queue.enter(Phase::Down(error.as_event())),
            Ok(End::Closed) => return,
            Ok(End::Lost { was_used: true }) => {
                backoff.reset();
                continue;
            }
            Ok(End::Lost { was_used: false } | End::Refused) => {}
        }
        let least = Duration::from_millis(LEAST_WAIT_MS + jitter.next() % LEAST_WAIT_MS);
        queue.pause(backoff.next_wait().unwrap_or(LONGEST_WAIT), least).await;
    }
}

/// Drives one connection until it ends, or until another server is the right one.
async fn connect_and_drive(queue: &Arc<Queue>, target: &Target) -> Result<End> {
    let connection = target.dial().await?;
    let host = connection.host().clone();
    let stream = connection.into_stream()?;
    let mut driver = Driver::new(Arc::clone(queue), stream, target.reply_timeout());
    let mut moves = pin!(target.moves_from(&host));
    let mut has_moved = false;
    queue.enter(Phase::Up);
    let driven = poll_fn(|cx| {
        if !has_moved && moves.as_mut().poll(cx).is_ready() {
            has_moved = true;
            let message = format!("{host} is not the server to use any more");
            driver.refuse(Error::new(Code::StoreUnavailable, message));
        }
        driver.poll(cx)
    });
    Ok(driven.await)
}

/// How a connection ended.
#[derive(Debug)]
enum End {
    /// It broke.
    Lost {
        /// Whether it has answered anything before.
        was_used: bool,
    },
    /// The server cannot serve, or is not the one to use.
    Refused,
    /// The queue was closed.
    Closed,
}

/// A connection and the commands that were taken from the queue.
struct Driver {
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
    /// Commands that were taken, oldest first.
    pending: VecDeque<Pending>,
    reply_timeout: Duration,
    timer: Pin<Box<Sleep>>,
    is_timer_set: bool,
    was_used: bool,
    /// No more commands are taken, for this reason.
    refusal: Option<Error>,
    is_closed: bool,
}

struct Pending {
    waiter: Waiter,
    /// When fewer bytes than this were written, none of its commands has run.
    runs_from: u64,
    since: Instant,
}

impl Driver {
    fn new(queue: Arc<Queue>, stream: Stream, reply_timeout: Duration) -> Self {
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
            pending: VecDeque::new(),
            reply_timeout,
            timer: Box::pin(sleep_until(Instant::now())),
            is_timer_set: false,
            was_used: false,
            refusal: None,
            is_closed: false,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if let Err(why) = self.work(cx) {
            // All calls that it takes down, and those until the next connection, are one event.
            self.end(&why.as_event());
            return Poll::Ready(match self.refusal {
                Some(_) => End::Refused,
                None => End::Lost { was_used: self.was_used },
            });
        }
        if !self.pending.is_empty() {
            return Poll::Pending;
        }
        if let Some(refusal) = self.refusal.take() {
            self.end(&refusal);
            return Poll::Ready(End::Refused);
        }
        if self.is_closed {
            self.end(&closed());
            return Poll::Ready(End::Closed);
        }
        Poll::Pending
    }

    fn work(&mut self, cx: &mut Context<'_>) -> Result<()> {
        self.read(cx)?;
        if let Poll::Ready(written) = self.write(cx) {
            written?;
        }
        if self.is_overdue(cx) { Err(no_reply_within(self.reply_timeout)) } else { Ok(()) }
    }

    /// Takes no more commands, for this reason, and ends once those under way are answered.
    fn refuse(&mut self, why: Error) {
        let why = why.as_event();
        self.queue.enter(Phase::Down(why.clone()));
        self.refusal = Some(why);
    }

    /// Reads until nothing more is there, and hands out the replies.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<()> {
        let mut answered = None;
        loop {
            let mut buffer = ReadBuf::new(&mut self.chunk);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Pending => {
                    // The last of those that have come: one reading of the clock for all of them.
                    answered.into_iter().for_each(|since| self.queue.note_answer(since));
                    return Ok(());
                }
                Poll::Ready(done) => done.map_err(|error| lost(&error))?,
            }
            if buffer.filled().is_empty() {
                return Err(lost(&io::ErrorKind::UnexpectedEof.into()));
            }
            self.parser.feed(buffer.filled());
            while let Some(reply) = self.parser.reply()? {
                answered = Some(self.hand_out(reply)?);
            }
        }
    }

    /// Returns when the command was taken.
    fn hand_out(&mut self, reply: Reply) -> Result<Instant> {
        let Pending { waiter, runs_from, since } =
            self.pending.pop_front().ok_or_else(unexpected)?;
        match &reply {
            Reply::Error(text) if cannot_serve(text) => self.refuse(error_of(text)),
            _ => self.was_used = true,
        }
        if let Some(waiter) = waiter.receive(reply) {
            self.pending.push_front(Pending { waiter, runs_from, since });
        }
        Ok(since)
    }

    /// Writes all that has gathered, until nothing is left or the server takes no more.
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

    /// Takes what has gathered; returns whether it took anything. If not, the task will be woken.
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
            state.driver = Some(cx.waker().clone());
            return false;
        }
        if !self.has_yielded {
            self.has_yielded = true;
            cx.waker().wake_by_ref();
            return false;
        }
        self.has_yielded = false;
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

    /// Whether the oldest command has waited too long. The timer is set rarely, and checked when it
    /// fires: most commands never touch it.
    fn is_overdue(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            let Some(oldest) = self.pending.front() else { return false };
            let due = oldest.since + self.reply_timeout;
            if !self.is_timer_set {
                self.timer.as_mut().reset(due);
                self.is_timer_set = true;
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.is_timer_set = false;
            if due <= Instant::now() {
                return true;
            }
        }
    }

    /// Fails all that is under way and all that is queued.
    fn end(&mut self, why: &Error) {
        self.queue.enter(Phase::Down(why.clone()));
        let not_sent = why.clone().not_sent();
        for pending in self.pending.drain(..) {
            let is_not_sent = self.written < pending.runs_from;
            pending.waiter.fail(if is_not_sent { &not_sent } else { why });
        }
    }
}

/// A runtime that shuts down drops the driver in the middle of its work.
impl Drop for Driver {
    fn drop(&mut self) {
        if !self.pending.is_empty() {
            self.end(&Error::new(Code::StoreUnavailable, "the runtime of the connection ended"));
        }
    }
}

/// Whether the server cannot serve any call now: another connection, perhaps to another server, is
/// better than another call.
pub(super) fn cannot_serve(text: &str) -> bool {
    let kind = text.split(' ').next();
    matches!(kind, Some("READONLY" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN"))
}
