//! How long the last rounds took, to see which caller comes too late.

use super::sync::{AtomicU64, Relaxed};
use super::{Reply, Round};
use crate::time::Micros;

/// The durations of the last two rounds.
#[derive(Debug, Default)]
pub(crate) struct Durations([AtomicU64; 2]);

impl Durations {
    pub(crate) fn add(&self, took: Micros) {
        let [last, previous] = &self.0;
        previous.store(last.swap(took, Relaxed), Relaxed);
    }

    /// The shorter of the two: durations vary, and a single slow round says little. 0 while it is
    /// not known.
    pub(crate) fn shortest(&self) -> Micros {
        let [last, previous] = &self.0;
        last.load(Relaxed).min(previous.load(Relaxed))
    }
}

impl<J, R: Reply> Round<J, R> {
    /// The backend took this long to answer a round of the queue, in microseconds.
    pub fn record_duration(&self, took: Micros) {
        self.queues.queue(self.queue).durations.add(took);
    }

    /// A round of the queue took this long from its beginning to its answers, in microseconds, and
    /// `is_served` tells whether a caller still waited for one of them. While rounds take longer
    /// than a caller has left, it is refused when it joins behind another one.
    pub fn record_round(&self, took: Micros, is_served: bool) {
        let queue = self.queues.queue(self.queue);
        queue.rounds.add(took);
        queue.is_served.store(is_served, Relaxed);
    }

    /// As [`Round::finish`], for a round that took this long from its beginning to its answers, in
    /// microseconds ([`Round::record_round`]).
    pub fn finish_measured(&mut self, answers: impl IntoIterator<Item = R>, took: Micros) {
        let is_served = self.answer_all(answers);
        self.record_round(took, is_served);
    }

    /// What a round of the queue needs, by the last two that were measured, and a quarter more
    /// because durations vary: a caller with less time left is not answered any more. 0 while it is
    /// not known.
    #[must_use]
    pub fn needed_duration(&self) -> Micros {
        let shortest = self.queues.queue(self.queue).durations.shortest();
        shortest.saturating_add(shortest / 4)
    }
}
