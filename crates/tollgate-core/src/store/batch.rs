//! The results of a batch: one slot per admission, owned by the caller.
//!
//! Some admissions of a batch may be answered when the deadline expires and others not. The store
//! puts each answer into its slot as soon as it has it, so no answer is lost when the limiter drops
//! the call. Each missing one is classified by facts of its own.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{CallContext, CallFacts, Evidence, Store};
use crate::charge::Admission;
use crate::error::{Code, Error, Result};

/// One slot per admission of a batch.
#[derive(Debug)]
pub struct BatchResults {
    slots: Box<[Slot]>,
    /// Whether the store takes contexts: then an admission without one was not begun.
    has_contexts: AtomicBool,
}

#[derive(Debug, Default)]
struct Slot {
    facts: CallFacts,
    result: Mutex<Option<Result<Evidence>>>,
}

impl Slot {
    fn result(&self) -> MutexGuard<'_, Option<Result<Evidence>>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BatchResults {
    /// Empty slots for a batch of this length.
    #[must_use]
    pub fn new(len: usize) -> Self {
        let slots = (0..len).map(|_| Slot::default()).collect();
        Self { slots, has_contexts: AtomicBool::new(false) }
    }

    /// How many admissions the batch has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether the batch has no admission.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The context of one admission of a batch that is called with `cx`, with facts of its own.
    /// Take it when the admission is begun: in a batch with contexts, an admission without one was
    /// not begun and is not charged.
    #[must_use]
    pub fn context<'a>(&'a self, index: usize, cx: CallContext<'a>) -> CallContext<'a> {
        self.has_contexts.store(true, Relaxed);
        match self.slots.get(index) {
            Some(slot) => {
                slot.facts.begin();
                cx.with_facts(&slot.facts)
            }
            None => cx,
        }
    }

    /// Puts an answer into its slot. The first answer counts.
    pub fn set(&self, index: usize, result: Result<Evidence>) {
        if let Some(slot) = self.slots.get(index) {
            slot.result().get_or_insert(result);
        }
    }

    /// The errors so far of a batch that was called with `cx`. An admission without an answer has
    /// the error that it gets if the deadline expires now.
    #[must_use]
    pub fn errors(&self, cx: &CallContext<'_>) -> Vec<Error> {
        let has_contexts = self.has_contexts.load(Relaxed);
        let has_answer = |slot: &Slot| slot.result().as_ref().is_some_and(is_answer);
        let seen = (has_contexts, self.slots.iter().any(has_answer));
        let error = |slot: &Slot| match &*slot.result() {
            Some(result) => result.as_ref().err().cloned(),
            None => Some(unanswered(&slot.facts, seen, || cx.expired())),
        };
        self.slots.iter().filter_map(error).collect()
    }

    /// All results of a batch that the store has completed. Leaves the slots empty. A slot that the
    /// store left empty is an error: it must never pass for a decision.
    #[must_use]
    pub fn completed(&self) -> Vec<Result<Evidence>> {
        let message = "the store did not answer for every admission of a batch";
        self.take(|_, _| Error::new(Code::CorruptState, message))
    }

    /// All results of a batch whose deadline has expired. Leaves the slots empty. A missing one is
    /// an error by the facts of its admission, or by those of the `whole` batch if the store took
    /// no contexts.
    #[must_use]
    pub fn expired(&self, whole: &CallFacts) -> Vec<Result<Evidence>> {
        let has_contexts = self.has_contexts.load(Relaxed);
        self.take(|facts, has_answer| {
            unanswered(facts, (has_contexts, has_answer), || whole.expired())
        })
    }

    fn take(&self, missing: impl Fn(&CallFacts, bool) -> Error) -> Vec<Result<Evidence>> {
        let results: Vec<_> = self.slots.iter().map(|slot| slot.result().take()).collect();
        let has_answer = results.iter().flatten().any(is_answer);
        let each = results.into_iter().zip(&self.slots).map(|(result, slot)| {
            let result = result.unwrap_or_else(|| Err(missing(&slot.facts, has_answer)));
            slot.facts.reset();
            result
        });
        self.has_contexts.store(false, Relaxed);
        each.collect()
    }
}

/// Decides a batch, and collects the results. For tests and tools: a limiter owns the slots itself,
/// because a deadline may expire before all of them are filled.
pub async fn admit_many<S: Store>(
    store: &S,
    batch: &[Admission<'_>],
    cx: CallContext<'_>,
) -> Vec<Result<Evidence>> {
    let results = BatchResults::new(batch.len());
    store.admit_many(batch, &results, cx).await;
    results.completed()
}

/// Decides the admissions of a batch one after another, in order.
pub async fn one_by_one<S: Store + ?Sized>(
    store: &S,
    batch: &[Admission<'_>],
    results: &BatchResults,
    cx: CallContext<'_>,
) {
    for (index, admission) in batch.iter().enumerate() {
        results.set(index, store.admit(admission, results.context(index, cx)).await);
    }
}

/// Whether the backend answered.
fn is_answer<T>(answer: &Result<T>) -> bool {
    !answer.as_ref().is_err_and(Error::is_outage)
}

/// The error of an admission without an answer once the deadline has expired.
fn unanswered(
    facts: &CallFacts,
    (has_contexts, has_answer): (bool, bool),
    whole: impl FnOnce() -> Error,
) -> Error {
    match (has_contexts, facts.has_begun()) {
        (false, _) => whole(),
        (true, true) => facts.expired(),
        (true, false) => not_begun(has_answer),
    }
}

/// An admission that was not begun: the batch itself was its queue.
fn not_begun(has_answer: bool) -> Error {
    let facts = CallFacts::new();
    let cx = CallContext::at(0).with_facts(&facts);
    cx.waiting();
    if has_answer {
        cx.others_served();
    }
    facts.expired()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(results: &BatchResults) -> Vec<Code> {
        results.errors(&CallContext::at(0)).iter().map(Error::code).collect()
    }

    #[test]
    fn errors_include_what_a_deadline_would_make_of_missing_answers() {
        let (results, cx) = (BatchResults::new(4), CallContext::at(0));
        assert_eq!(codes(&results), [Code::Timeout; 4], "nothing is known");
        results.set(0, Err(Error::new(Code::StoreFull, "full")));
        results.context(1, cx).sent();
        results.context(2, cx).lost_race();
        let seen = [Code::StoreFull, Code::Timeout, Code::ConflictExhausted, Code::QueueFull];
        assert_eq!(codes(&results), seen, "the last was not begun, and others were served");
        let expired = results.expired(&CallFacts::new());
        let expired = expired.iter().filter_map(|one| one.as_ref().err()).map(Error::code);
        assert_eq!(expired.collect::<Vec<_>>(), seen);
    }
}
