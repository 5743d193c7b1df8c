//! A caller that waits: for its answer, or to lead.

use core::fmt;
use core::future::poll_fn;
use core::task::{Context, Poll};
use std::sync::Arc;

use super::lead::Lead;
use super::round::{Queues, Roster};
use super::waiter::{Polled, Waiter};
use super::{Combiner, Reply, Work};
use crate::error::Result;
use crate::store::{BatchResults, CallContext, Evidence};

/// A caller in a queue. Dropping it cancels the call, and records in the context of the call what
/// is known.
#[must_use = "a caller that does not wait is cancelled"]
pub struct Pending<'c, J, R: Reply, Q: Queues<J, R> = Combiner<J, R>> {
    queues: &'c Arc<Q>,
    queue: Q::Queue,
    waiter: Arc<Waiter<J, R>>,
    cx: CallContext<'c>,
    /// Whether others that are ready run before this caller leads: they join its round.
    defers: bool,
    /// Rounds that this caller drives: one that it leads, and those that were handed over to it.
    driven: Vec<Driven<J, R>>,
}

/// A round that a caller drives.
pub(super) struct Driven<J, R> {
    work: Work,
    roster: Arc<Roster<J, R>>,
}

/// What became of a round that a caller was to lead.
pub struct Led<J, R>(Option<Driven<J, R>>);

impl<J, R> Led<J, R> {
    /// The round was spawned.
    #[must_use]
    pub const fn elsewhere() -> Self {
        Self(None)
    }

    pub(super) const fn here(work: Work, roster: Arc<Roster<J, R>>) -> Self {
        Self(Some(Driven { work, roster }))
    }
}

impl<'c, J, R: Reply, Q: Queues<J, R>> Pending<'c, J, R, Q> {
    pub(super) fn new(
        queues: &'c Arc<Q>,
        queue: Q::Queue,
        waiter: Arc<Waiter<J, R>>,
        cx: CallContext<'c>,
    ) -> Self {
        let defers = waiter.is_urgent();
        Self { queues, queue, waiter, cx, defers, driven: Vec::new() }
    }

    /// The answer, of a queue that a worker serves.
    pub async fn answer(self) -> R {
        poll_fn(|context| match self.waiter.poll(context) {
            Polled::Answered(answer) => Poll::Ready(answer),
            Polled::HandedOver(_) | Polled::Pending => Poll::Pending,
        })
        .await
    }

    /// The answer, of a queue that its callers lead. `lead` runs a round when it is this caller's
    /// turn to lead one, which need not be a round that it is in.
    pub async fn answer_or_lead(mut self, mut lead: impl FnMut(Lead<J, R, Q>) -> Led<J, R>) -> R {
        poll_fn(|context| self.poll(context, &mut lead)).await
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        lead: &mut impl FnMut(Lead<J, R, Q>) -> Led<J, R>,
    ) -> Poll<R> {
        loop {
            match self.waiter.poll(context) {
                Polled::Answered(answer) => return Poll::Ready(answer),
                Polled::HandedOver(driven) => {
                    self.driven.push(driven);
                    continue;
                }
                Polled::Pending => {}
            }
            if !self.driven.is_empty() {
                let mut has_ended = false;
                // Taken out: a round that panics is dropped, and never polled again.
                for mut driven in core::mem::take(&mut self.driven) {
                    match driven.work.as_mut().poll(context).is_pending() {
                        true => self.driven.push(driven),
                        false => has_ended = true,
                    }
                }
                if has_ended {
                    continue;
                }
                return Poll::Pending;
            }
            if core::mem::take(&mut self.defers) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let Some(members) = self.queues.lead(&self.queue, &self.waiter) else {
                return Poll::Pending;
            };
            self.driven.extend(lead(Lead::new(self.queues, &self.queue, members)).0);
            if self.driven.is_empty() {
                return Poll::Pending;
            }
        }
    }

    fn end(&mut self) -> Option<R> {
        let left = self.waiter.leave(self.cx, || self.queues.answered(&self.queue));
        for driven in core::mem::take(&mut self.driven).into_iter().chain(left.handed_over) {
            driven.hand_over();
        }
        if left.was_waiting {
            self.queues.cancelled(&self.queue, &self.waiter);
        }
        left.answer
    }
}

impl<J, R> Driven<J, R> {
    /// Lets another member drive the round on. Without one the round ends.
    fn hand_over(self) {
        let mut driven = self;
        while let Some(member) = driven.roster.next() {
            match member.hand_over(driven) {
                Ok(()) => return,
                Err(back) => driven = back,
            }
        }
    }
}

impl<J, R: Reply, Q: Queues<J, R>> fmt::Debug for Pending<'_, J, R, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("leads", &!self.driven.is_empty()).finish_non_exhaustive()
    }
}

impl<J, R> fmt::Debug for Led<J, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Led(here)" } else { "Led(elsewhere)" })
    }
}

impl<J, R: Reply, Q: Queues<J, R>> Drop for Pending<'_, J, R, Q> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// Waits for the answers of a batch, in a queue that a worker serves, and puts each into its slot.
/// A call that was refused brings its error. Answers that are there when this is dropped are not
/// lost.
pub async fn collect<'c, J, R: Reply, Q: Queues<J, R> + 'c>(
    calls: impl IntoIterator<Item = Result<Pending<'c, J, R, Q>>>,
    results: &BatchResults,
    evidence: impl Fn(R) -> Result<Evidence>,
) {
    let mut rest = Batch { calls: Vec::new(), results, evidence };
    for (index, call) in calls.into_iter().enumerate() {
        match call {
            Ok(call) => rest.calls.push((index, call)),
            Err(error) => results.set(index, Err(error)),
        }
    }
    // The last one first: most answers are there when it is.
    poll_fn(|context| {
        while let Some((index, call)) = rest.calls.last_mut() {
            match call.waiter.poll(context) {
                Polled::Answered(answer) => results.set(*index, (rest.evidence)(answer)),
                Polled::HandedOver(_) | Polled::Pending => return Poll::Pending,
            }
            rest.calls.pop();
        }
        Poll::Ready(())
    })
    .await;
}

struct Batch<'c, 'b, J, R: Reply, Q: Queues<J, R>, F: Fn(R) -> Result<Evidence>> {
    calls: Vec<(usize, Pending<'c, J, R, Q>)>,
    results: &'b BatchResults,
    evidence: F,
}

impl<J, R: Reply, Q: Queues<J, R>, F: Fn(R) -> Result<Evidence>> Drop
    for Batch<'_, '_, J, R, Q, F>
{
    fn drop(&mut self) {
        for (index, call) in &mut self.calls {
            if let Some(answer) = call.end() {
                self.results.set(*index, (self.evidence)(answer));
            }
        }
    }
}
