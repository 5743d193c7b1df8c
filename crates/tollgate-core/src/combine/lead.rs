//! A round that a caller leads: it runs it itself, or hands it to a task.

use core::future::{Future, poll_fn};
use core::task::Poll;
use std::sync::Arc;

use super::queue::LARGE_ROUND;
use super::round::{Queues, Roster, Round};
use super::sync::Mutex;
use super::waiter::Waiter;
use super::{Combiner, Led, Reply};
use crate::maybe_send::MaybeSend;

/// One of the rounds that may run at once. Ends when it is dropped.
struct Slot<J, R, Q: Queues<J, R>> {
    queues: Arc<Q>,
    queue: Q::Queue,
    /// The size of its round; 0 once it has ended.
    size: usize,
    has_ended: bool,
    types: core::marker::PhantomData<fn() -> (J, R)>,
}

impl<J, R: Reply> Slot<J, R, Combiner<J, R>> {
    /// Ends the round, and begins the next one if waiters are left for it.
    fn next(&mut self) -> Option<Vec<Arc<Waiter<J, R>>>> {
        let next = self.queues.next(self.queue, self.size);
        self.has_ended = next.is_none();
        self.size = next.as_ref().map_or(0, Vec::len);
        next
    }
}

impl<J, R, Q: Queues<J, R>> Drop for Slot<J, R, Q> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.queues.end(&self.queue, self.size);
        }
    }
}

/// A round that a caller is to lead.
#[must_use = "a round that is dropped goes back to its queue"]
pub struct Lead<J, R: Reply, Q: Queues<J, R> = Combiner<J, R>> {
    // Dropped in this order: the waiters are back before the next round may begin.
    round: Round<J, R, Q>,
    slot: Slot<J, R, Q>,
}

impl<J, R: Reply, Q: Queues<J, R>> Lead<J, R, Q> {
    pub(super) fn new(queues: &Arc<Q>, queue: &Q::Queue, members: Vec<Arc<Waiter<J, R>>>) -> Self {
        let slot = Slot {
            queues: Arc::clone(queues),
            queue: queue.clone(),
            size: members.len(),
            has_ended: false,
            types: core::marker::PhantomData,
        };
        Self { round: Round::new(Arc::clone(queues), queue.clone(), members), slot }
    }

    /// How many waiters the round has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.round.len()
    }

    /// Whether the round has no waiters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.round.is_empty()
    }
}

impl<J, R: Reply> Lead<J, R> {
    /// Runs this round and those after it, as long as callers wait: for a task of its own, which no
    /// cancelled caller ends. After a large round, the callers that it answered run first: many of
    /// them call again at once, and are in time for the next round.
    pub async fn run_all<F>(self, mut run: impl FnMut(Round<J, R>) -> F)
    where
        F: Future<Output = ()>,
    {
        let Self { round, mut slot } = self;
        let mut next = Some(round);
        while let Some(round) = next {
            let is_large = round.len() >= LARGE_ROUND;
            run(round).await;
            if is_large {
                yield_now().await;
            }
            next = slot
                .next()
                .map(|members| Round::new(Arc::clone(&slot.queues), slot.queue, members));
        }
    }
}

impl<J, R, Q> Lead<J, R, Q>
where
    J: 'static,
    R: Reply + 'static,
    Q: Queues<J, R> + 'static,
    Arc<Q>: MaybeSend,
    Q::Queue: MaybeSend + 'static,
{
    /// Runs this one round in the caller that leads it. If that caller is cancelled, another member
    /// drives the round on.
    pub fn run_here<F>(self, run: impl FnOnce(Round<J, R, Q>) -> F) -> Led<J, R>
    where
        F: Future<Output = ()> + MaybeSend + 'static,
    {
        let Self { mut round, slot } = self;
        let roster = Arc::new(Roster(Mutex::new(round.members.clone())));
        round.roster = Some(Arc::clone(&roster));
        let running = run(round);
        let work = async move {
            running.await;
            drop(slot);
        };
        Led::here(Box::pin(work), roster)
    }
}

impl<J, R: Reply, Q: Queues<J, R>> core::fmt::Debug for Lead<J, R, Q> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Lead").field(&self.round).finish()
    }
}

/// Lets other tasks that are ready run once.
async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
