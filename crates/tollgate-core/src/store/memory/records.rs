//! Request ids that were charged, for as long as they are kept.
//!
//! A record holds what is needed to derive the same decision again. It is written while the lock of
//! its shelf is held around the whole admission, so that charging and remembering are one act.
//! The number of records is bounded: when it is reached new ids are refused, never old ones dropped.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::Outcome;
use super::fingerprint::Id;
use crate::charge::Admission;
use crate::error::{Code, Error, Result};
use crate::time::Micros;

/// Shelves with a lock of their own.
const SHELVES: usize = 16;

#[derive(Debug)]
pub(super) struct Records {
    shelves: [Mutex<Shelf>; SHELVES],
    /// Records on all shelves, and those that an admission under way may add.
    held: AtomicUsize,
    max: usize,
    /// Spreads ids over shelves.
    spread: RandomState,
}

#[derive(Debug, Default)]
pub(super) struct Shelf {
    records: HashMap<RecordKey, Record>,
    /// Every record, the one that expires first on top: callers choose how long theirs are kept.
    by_expiry: BinaryHeap<Reverse<(Micros, RecordKey)>>,
}

/// A request id is scoped to the key of its first charge.
pub(super) type RecordKey = ((u64, u64), Box<str>);

#[derive(Debug)]
struct Record {
    payload: Box<str>,
    outcome: Outcome,
}

/// Room for one more record. Dropping it unused gives the room back.
#[derive(Debug)]
pub(super) struct Room<'a>(&'a AtomicUsize);

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Records {
    pub(super) fn new(max: usize) -> Self {
        Self {
            shelves: Default::default(),
            held: AtomicUsize::new(0),
            max,
            spread: RandomState::new(),
        }
    }

    pub(super) fn key(id: Id, request_id: &str) -> RecordKey {
        ((id.low, id.high), request_id.into())
    }

    /// The shelf of a key, without the records that have expired.
    #[expect(clippy::cast_possible_truncation, reason = "any bits of the hash will do")]
    pub(super) fn lock(&self, key: &RecordKey, at: Micros) -> MutexGuard<'_, Shelf> {
        let [shelf, ..] = &self.shelves;
        let chosen = self.shelves.get(self.spread.hash_one(key) as usize % SHELVES);
        let mut shelf = chosen.unwrap_or(shelf).lock().unwrap_or_else(PoisonError::into_inner);
        self.forget_expired(&mut shelf, at);
        shelf
    }

    /// Room for one more record, or `queue_full`.
    pub(super) fn room(&self, at: Micros) -> Result<Room<'_>> {
        if let Some(room) = self.reserve() {
            return Ok(room);
        }
        // The caller holds a shelf, so it must not wait for another: whoever has one tidies it.
        for mut shelf in self.shelves.iter().filter_map(|shelf| shelf.try_lock().ok()) {
            self.forget_expired(&mut shelf, at);
        }
        self.reserve().ok_or_else(|| {
            Error::new(
                Code::QueueFull,
                "too many request ids are being remembered; try again later",
            )
        })
    }

    /// How many records there are, when no admission is under way.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    fn reserve(&self) -> Option<Room<'_>> {
        let more = |held: usize| (held < self.max).then_some(held + 1);
        self.held.fetch_update(Relaxed, Relaxed, more).ok().map(|_| Room(&self.held))
    }

    fn forget_expired(&self, shelf: &mut Shelf, at: Micros) {
        while let Some(Reverse((expires_at, _))) = shelf.by_expiry.peek()
            && *expires_at <= at
            && let Some(Reverse((_, key))) = shelf.by_expiry.pop()
        {
            shelf.records.remove(&key);
            self.held.fetch_sub(1, Relaxed);
        }
    }
}

impl Shelf {
    /// The outcome of an earlier admission under the same id, if it is still remembered.
    pub(super) fn replay(
        &self,
        key: &RecordKey,
        admission: &Admission<'_>,
    ) -> Result<Option<Outcome>> {
        match self.records.get(key) {
            None => Ok(None),
            Some(record) if *record.payload == *admission.payload() => {
                Ok(Some(record.outcome.clone()))
            }
            Some(_) => Err(Error::new(
                Code::IdempotencyConflict,
                "this request id was used on this key for another request",
            )
            .with_field("request_id")),
        }
    }

    /// Keeps the outcome of an id that has no record.
    pub(super) fn remember(
        &mut self,
        room: Room<'_>,
        key: RecordKey,
        (admission, outcome): (&Admission<'_>, &Outcome),
        expires_at: Micros,
    ) {
        let shapes = admission.charges.iter().map(|charge| charge.rule().shape()).collect();
        let charges = admission.charges.iter().zip(&outcome.before);
        let before: Vec<_> = charges
            .map(|(charge, before)| Some(charge.evidence(before.as_ref()?, outcome.now)))
            .collect();
        let outcome = Outcome::replayed(outcome.now, before, shapes);
        let payload = admission.payload().into();
        self.by_expiry.push(Reverse((expires_at, key.clone())));
        self.records.insert(key, Record { payload, outcome });
        // The record has taken the room; forgetting it gives it back.
        std::mem::forget(room);
    }
}
