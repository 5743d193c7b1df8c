//! What callers leave for a connection: commands as bytes, in order, and who waits for the replies.
//!
//! Callers append under one lock; the connection takes everything that has gathered at once, which
//! is all that pipelining needs. A caller wakes the connection only if it sleeps, so that a hundred
//! callers cost one wake. The queue outlives connections: its phase says whether there is one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::sync::oneshot;
use tollgate_core::{Code, Error, Result};

use crate::transport::Reply;

/// So many bytes are worth a write of their own, without waiting for more.
pub(super) const GATHERED: usize = 64 * 1024;
/// Commands that wait to be written, in bytes. A server that takes no more for so long is away.
const BACKLOG_MAX: usize = 32 * 1024 * 1024;

/// Whether there is a connection.
#[derive(Debug)]
pub(super) enum Phase {
    /// Nobody has asked for one yet.
    Idle,
    /// The first attempt is under way; what is queued waits for it.
    Opening,
    /// There is one.
    Up,
    /// There is none, for this reason; another attempt will be made.
    Down(Error),
    /// There will be none any more.
    Closed,
}

/// Commands and waiters between callers and the connection.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// How often the server has answered, for those who wait behind others.
    heard: AtomicU64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) bytes: Vec<u8>,
    pub(super) waiting: Vec<Waiting>,
    /// The keeper of the connection, when it sleeps, and how many commands it sleeps for.
    pub(super) waker: Option<Waker>,
    pub(super) enough: usize,
}

/// Who waits for the replies to commands that stand one after another.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) waiter: Waiter,
    /// Bytes of all its commands, and of the first. As long as not all of the first are sent, none
    /// of them has run.
    pub(super) bytes: usize,
    pub(super) first_bytes: usize,
}

/// One reply, or several that are handed over together.
#[derive(Debug)]
pub(super) enum Waiter {
    One(oneshot::Sender<Result<Reply>>),
    Many(Box<Many>),
}

/// Replies that are handed over together.
#[derive(Debug)]
pub(super) struct Many {
    sender: oneshot::Sender<Vec<Result<Reply>>>,
    replies: Vec<Result<Reply>>,
    missing: usize,
}

/// What became of an attempt to append.
pub(super) enum Appended<T> {
    /// The replies will come here.
    Here(oneshot::Receiver<T>),
    /// The same, and this is the first use: somebody must open the connection.
    First(oneshot::Receiver<T>),
    /// The same, and the keeper of the connection sleeps: whoever appended drives it, or wakes the
    /// keeper.
    Asleep(oneshot::Receiver<T>),
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                phase: Phase::Idle,
                bytes: Vec::new(),
                waiting: Vec::new(),
                waker: None,
                enough: 1,
            }),
            heard: AtomicU64::new(0),
        }
    }

    /// How often the server has answered anybody.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Relaxed)
    }

    /// The server has answered some commands.
    pub(super) fn was_heard(&self) {
        self.heard.fetch_add(1, Relaxed);
    }

    /// Appends one command.
    pub(super) fn append_one(
        &self,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Appended<Result<Reply>>> {
        let (sender, receiver) = oneshot::channel();
        self.append(receiver, true, |bytes| {
            encode(bytes);
            (Waiter::One(sender), bytes.len())
        })
    }

    /// Appends several commands, one after another.
    pub(super) fn append_many<C>(
        &self,
        commands: impl ExactSizeIterator<Item = C>,
        mut encode: impl FnMut(&mut Vec<u8>, C),
    ) -> Result<Appended<Vec<Result<Reply>>>> {
        let (sender, receiver) = oneshot::channel();
        self.append(receiver, false, |bytes| {
            let missing = commands.len();
            let mut first_end = None;
            for command in commands {
                encode(bytes, command);
                first_end.get_or_insert(bytes.len());
            }
            let replies = Vec::with_capacity(missing);
            let waiter = Waiter::Many(Box::new(Many { sender, replies, missing }));
            (waiter, first_end.unwrap_or(bytes.len()))
        })
    }

    /// `write` appends the bytes, and says who waits and where the first command ends. One who may
    /// drive lets the keeper sleep, if nobody else waits.
    fn append<T>(
        &self,
        receiver: oneshot::Receiver<T>,
        may_drive: bool,
        write: impl FnOnce(&mut Vec<u8>) -> (Waiter, usize),
    ) -> Result<Appended<T>> {
        let mut state = self.lock();
        let is_first = match &state.phase {
            Phase::Idle => true,
            Phase::Opening | Phase::Up => false,
            Phase::Down(why) => return Err(why.clone().not_sent()),
            Phase::Closed => return Err(closed()),
        };
        let start = state.bytes.len();
        if start > BACKLOG_MAX {
            return Err(
                Error::new(Code::StoreUnavailable, "Redis takes no more commands").not_sent()
            );
        }
        if is_first {
            state.phase = Phase::Opening;
        }
        let (waiter, first_end) = write(&mut state.bytes);
        let (bytes, first_bytes) = (state.bytes.len() - start, first_end - start);
        let is_idle = state.waker.is_some() && state.waiting.is_empty() && state.enough <= 1;
        state.waiting.push(Waiting { waiter, bytes, first_bytes });
        if may_drive && is_idle {
            return Ok(Appended::Asleep(receiver));
        }
        let has_enough = state.waiting.len() >= state.enough || state.bytes.len() >= GATHERED;
        let waker = if has_enough { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(if is_first { Appended::First(receiver) } else { Appended::Here(receiver) })
    }

    /// Wakes the keeper, if it sleeps.
    pub(super) fn wake(&self) {
        let waker = self.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Enters a phase, unless closed for good. Without a connection nobody may wait for one: all
    /// that is queued fails as unsent.
    pub(super) fn enter(&self, phase: Phase) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Closed) {
            return;
        }
        let why = match &phase {
            Phase::Opening | Phase::Up => None,
            Phase::Down(why) => Some(why.clone().not_sent()),
            Phase::Idle | Phase::Closed => Some(closed()),
        };
        state.phase = phase;
        let Some(why) = why else { return };
        state.bytes.clear();
        let waiting = std::mem::take(&mut state.waiting);
        let waker = state.waker.take();
        drop(state);
        for waiting in waiting {
            waiting.waiter.fail(&why);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether what is appended now may be answered.
    pub(super) fn is_usable(&self) -> bool {
        matches!(self.lock().phase, Phase::Idle | Phase::Opening | Phase::Up)
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.lock().phase, Phase::Closed)
    }

    /// A panic while appending leaves a queue that is still in order: bytes and waiters are changed
    /// by code that does not panic.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// Hands over a reply; returns the waiter as long as it waits for more.
    pub(super) fn receive(self, reply: Reply) -> Option<Self> {
        match self {
            Self::One(sender) => {
                // Whoever has gone away needs no reply.
                let _ = sender.send(Ok(reply));
                None
            }
            Self::Many(mut many) => {
                many.replies.push(Ok(reply));
                many.missing -= 1;
                if many.missing > 0 {
                    return Some(Self::Many(many));
                }
                let Many { sender, replies, .. } = *many;
                let _ = sender.send(replies);
                None
            }
        }
    }

    /// Fails what is still waited for.
    pub(super) fn fail(self, why: &Error) {
        match self {
            Self::One(sender) => {
                let _ = sender.send(Err(why.clone()));
            }
            Self::Many(many) => {
                let Many { sender, mut replies, missing } = *many;
                replies.extend((0..missing).map(|_| Err(why.clone())));
                let _ = sender.send(replies);
            }
        }
    }
}

pub(super) fn closed() -> Error {
    Error::new(Code::StoreUnavailable, "the connection to Redis is closed").not_sent()
}
