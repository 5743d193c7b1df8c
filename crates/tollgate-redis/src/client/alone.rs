//! A caller who is alone drives the connection itself: one task for the call and the reply.
//!
//! What is lost by handing a reply from task to task, a wake and perhaps another processor, is a
//! good part of a round trip. Whoever drives may go away at any time: then the keeper goes on.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tollgate_core::Result;

use super::connection::{Connection, Driven};
use super::queue::Queue;
use crate::transport::Reply;

/// Where the connection is, when there is one, for whoever drives it.
#[derive(Debug, Default)]
pub(super) struct Desk {
    connection: Mutex<Option<Connection>>,
    /// The next turn of the next connection: whoever drove one that has ended, and has not looked since,
    /// must not take a turn of that one for its own.
    next_turn: AtomicU64,
}

impl Desk {
    /// Puts a connection here until the guard goes.
    pub(super) fn seat(&self, mut connection: Connection) -> Seated<'_> {
        connection.turn = self.next_turn.load(Relaxed);
        *self.lock() = Some(connection);
        Seated(self)
    }

    /// Nobody leaves a connection halfway: what drives it does not panic, and what it calls (wakers)
    /// is called when its own state is in order.
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Option<Connection>>> {
        match self.connection.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A connection at its desk.
pub(super) struct Seated<'d>(&'d Desk);

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        // Ended outside of the lock: it wakes whoever waits.
        let connection = self.0.lock().take();
        if let Some(connection) = &connection {
            self.0.next_turn.store(connection.turn + 1, Relaxed);
        }
        drop(connection);
    }
}

/// The reply to a command that was appended while the keeper slept, which nobody has woken yet.
pub(super) struct Alone {
    queue: Arc<Queue>,
    desk: Arc<Desk>,
    receiver: oneshot::Receiver<Result<Reply>>,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    /// Perhaps this caller may drive.
    Fresh,
    /// It does.
    Driving(u64),
    /// The keeper does, and has been told.
    Waiting,
    Answered,
}

impl Alone {
    pub(super) const fn new(
        queue: Arc<Queue>,
        desk: Arc<Desk>,
        receiver: oneshot::Receiver<Result<Reply>>,
    ) -> Self {
        Self { queue, desk, receiver, stage: Stage::Fresh }
    }

    /// Drives, if it can be.
    fn drive(&mut self, cx: &mut Context<'_>) -> Option<Poll<Result<Reply>>> {
        let mut desk = self.desk.try_lock()?;
        let connection = desk.as_mut()?;
        let turn = match self.stage {
            Stage::Driving(turn) => turn,
            _ => connection.begin()?,
        };
        match connection.drive(turn, cx) {
            Driven::Mine => self.stage = Stage::Driving(turn),
            Driven::Stuck => return None,
            Driven::TakenOver => {
                self.stage = Stage::Waiting;
                return None;
            }
        }
        let Ok(reply) = self.receiver.try_recv() else { return Some(Poll::Pending) };
        self.stage = Stage::Answered;
        let is_quiet = connection.rest();
        drop(desk);
        if !is_quiet {
            self.queue.wake();
        }
        Some(Poll::Ready(reply))
    }
}

impl Future for Alone {
    type Output = Result<Reply>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if matches!(this.stage, Stage::Fresh | Stage::Driving(_)) {
            if let Some(driven) = this.drive(cx) {
                return driven;
            }
            if !matches!(this.stage, Stage::Waiting) {
                this.stage = Stage::Waiting;
                this.queue.wake();
            }
        }
        let received = Pin::new(&mut this.receiver).poll(cx);
        received.map(|reply| {
            this.stage = Stage::Answered;
            reply.unwrap_or_else(|_| Err(super::link::abandoned()))
        })
    }
}

/// A caller that goes away leaves its command, or its reply, to the keeper.
impl Drop for Alone {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Fresh | Stage::Driving(_)) {
            self.queue.wake();
        }
    }
}
