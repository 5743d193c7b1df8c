//! Permission for a caller that met no other in its queue: one byte, no lock.

use std::sync::Arc;

use super::{Combiner, Lead, Queues, Reply};
use crate::time::Micros;

/// Permission for one call of a caller that met no other in its queue.
#[must_use = "the permission ends when it is dropped"]
pub struct Permit<'q, J, R: Reply> {
    combiner: &'q Arc<Combiner<J, R>>,
    queue: usize,
    is_released: bool,
}

impl<'q, J, R: Reply> Permit<'q, J, R> {
    pub(super) const fn new(combiner: &'q Arc<Combiner<J, R>>, queue: usize) -> Self {
        Self { combiner, queue, is_released: false }
    }

    /// The backend has answered the call, which took this long. If callers wait they record it,
    /// and it counts as a round of the queue: the first of many callers at once are alone, and the
    /// others learn from them how long the backend takes.
    pub fn answered_after(&self, took: impl FnOnce() -> Micros) {
        if self.combiner.gate(self.queue).is_awaited() {
            let queue = self.combiner.queue(self.queue);
            Queues::count_answered(&**self.combiner, &self.queue);
            queue.measure(took());
        }
    }

    /// Ends the call. If callers wait, the next round is returned, to be run by a task: where no
    /// task can be spawned, drop the permit instead, and the first waiter leads.
    #[must_use]
    pub fn release(mut self) -> Option<Lead<J, R>> {
        self.is_released = true;
        let gate = self.combiner.gate(self.queue);
        if gate.try_leave() {
            return None;
        }
        let members = self.combiner.next(self.queue, 0)?;
        Some(Lead::new(self.combiner, &self.queue, members))
    }
}

impl<J, R: Reply> Drop for Permit<'_, J, R> {
    fn drop(&mut self) {
        if !self.is_released {
            Queues::end(&**self.combiner, &self.queue, 0);
        }
    }
}

impl<J, R: Reply> core::fmt::Debug for Permit<'_, J, R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Permit").field("queue", &self.queue).finish_non_exhaustive()
    }
}
