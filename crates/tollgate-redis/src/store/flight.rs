//! Rounds under way, and how they end: whoever goes away, nobody is left without an answer.

use core::future::poll_fn;
use core::task::Poll;
use std::sync::Arc;

use tollgate_core::{Charge, Result};

use super::Inner;
use super::items::{Answer, answer_of};
use super::queue::{CROWD, Lane, Line, Round, Ticket};
use crate::transport::{Reply, Transport};

/// Rounds that nobody's going away concerns. One that ends early, even before it was begun (its runtime
/// goes away), leaves nobody without an answer, and lets the next one start.
pub(super) struct Flight<T: Transport> {
    inner: Arc<Inner<T>>,
    lane: Lane,
    /// What is to be sent, and how many that is.
    round: Option<Round>,
    size: usize,
    has_landed: bool,
}

impl<T: Transport> Flight<T> {
    pub(super) fn new(inner: &Arc<Inner<T>>, lane: Lane, first: Vec<Arc<Ticket>>) -> Self {
        let (inner, size) = (Arc::clone(inner), first.len());
        Self { inner, lane, round: Some(Round(first)), size, has_landed: false }
    }

    /// One round after another, as long as somebody waits.
    pub(super) async fn run(mut self) {
        while let Some(round) = self.round.take() {
            let line = self.inner.queues.at(self.lane);
            self.inner.send(line, round).await;
            if self.size >= CROWD {
                others_first().await;
            }
            match line.go_on(self.size) {
                Some(next) => {
                    self.size = next.len();
                    self.round = Some(Round(next));
                }
                None => self.has_landed = true,
            }
        }
    }
}

/// Lets those who are ready run once: of a crowd that was just answered many ask again at once, and are in
/// time for the next round.
async fn others_first() {
    let mut has_waited = false;
    poll_fn(|context| {
        if has_waited {
            return Poll::Ready(());
        }
        has_waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl<T: Transport> Drop for Flight<T> {
    fn drop(&mut self) {
        drop(self.round.take());
        if !self.has_landed {
            self.inner.queues.at(self.lane).land(self.size);
        }
    }
}

/// A caller in the queue. One that goes away may have been the next to lead.
pub(super) struct Seated<'q> {
    pub(super) ticket: Arc<Ticket>,
    pub(super) line: Line<'q>,
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        if self.ticket.leave() {
            self.line.call_next();
        }
    }
}

/// The end of a round that a caller flew itself, however it ends.
pub(super) struct Landing<'i, T: Transport> {
    pub(super) inner: &'i Arc<Inner<T>>,
    pub(super) lane: Lane,
    /// Of those who waited: none if the caller flew alone.
    pub(super) size: usize,
}

impl<T: Transport> Landing<'_, T> {
    /// What became of a charge that was alone in its call.
    pub(super) fn answer(self, charge: &Charge<'_>, reply: Result<Reply>) -> Answer {
        let answer = answer_of(charge, reply);
        if answer.is_heard() {
            self.inner.queues.at(self.lane).was_heard();
        }
        answer
    }
}

impl<T: Transport> Drop for Landing<'_, T> {
    fn drop(&mut self) {
        let line = self.inner.queues.at(self.lane);
        if line.land_for_good(self.size) {
            return;
        }
        match self.inner.wire.transport.spawner() {
            None => line.land(self.size),
            Some(spawn) => {
                if let Some(round) = line.go_on(self.size) {
                    spawn(Box::pin(Flight::new(self.inner, self.lane, round).run()));
                }
            }
        }
    }
}
