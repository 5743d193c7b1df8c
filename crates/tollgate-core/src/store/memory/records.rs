//! Request ids that were charged, for as long as they are kept.
//!
//! A record holds what is needed to derive the same decision again. It is written while the lock of
//! its shelf is held around the whole admission, so that charging and remembering are one act.
//! The number of records is bounded: when it is reached new ids are refused, never old ones dropped.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
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
    /// How many records a shelf may hold.
    max_per_shelf: usize,
    /// Spreads ids over shelves.
    spread: RandomState,
}

#[derive(Debug, Default)]
pub(super) struct Shelf {
    records: HashMap<RecordKey, Record>,
    /// Records by the time they were made; they nearly always expire in this order.
    by_age: VecDeque<(Micros, RecordKey)>,
}

/// A request id is scoped to the key of its first charge.
pub(super) type RecordKey = ((u64, u64), Box<str>);

#[derive(Debug)]
struct Record {
    payload: Box<str>,
    outcome: Outcome,
    expires_at: Micros,
}

impl Records {
    pub(super) fn new(max: usize) -> Self {
        Self {
            shelves: Default::default(),
            max_per_shelf: max.div_ceil(SHELVES),
            spread: RandomState::new(),
        }
    }

    pub(super) fn key(id: Id, request_id: &str) -> RecordKey {
        ((id.low, id.high), request_id.into())
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of the hash will do")]
    pub(super) fn lock(&self, key: &RecordKey) -> MutexGuard<'_, Shelf> {
        let [shelf, ..] = &self.shelves;
        let chosen = self.shelves.get(self.spread.hash_one(key) as usize % SHELVES);
        chosen.unwrap_or(shelf).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for one more record on this shelf, or `queue_full`.
    pub(super) fn ensure_room(&self, shelf: &mut Shelf, at: Micros) -> Result<()> {
        shelf.forget_expired(at);
        if shelf.records.len() < self.max_per_shelf {
            return Ok(());
        }
        Err(Error::new(
            Code::QueueFull,
            "too many request ids are being remembered; try again later",
        ))
    }
}

impl Shelf {
    /// The outcome of an earlier admission under the same id, if it is still remembered.
    pub(super) fn replay(
        &self,
        key: &RecordKey,
        admission: &Admission<'_>,
        at: Micros,
    ) -> Result<Option<Outcome>> {
        match self.records.get(key).filter(|record| record.expires_at > at) {
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

    pub(super) fn remember(
        &mut self,
        key: RecordKey,
        admission: &Admission<'_>,
        outcome: &Outcome,
        expires_at: Micros,
    ) {
        let shapes = admission.charges.iter().map(|charge| charge.rule().shape()).collect();
        let outcome = Outcome::replayed(outcome.now, outcome.before.clone(), shapes);
        self.by_age.push_back((expires_at, key.clone()));
        let payload = admission.payload().into();
        self.records.insert(key, Record { payload, outcome, expires_at });
    }

    fn forget_expired(&mut self, at: Micros) {
        while let Some((expires_at, _)) = self.by_age.front()
            && *expires_at <= at
        {
            let Some((expires_at, key)) = self.by_age.pop_front() else {
                break;
            };
            // The id may have been used again since, with a later expiry.
            if self.records.get(&key).is_some_and(|record| record.expires_at == expires_at) {
                self.records.remove(&key);
            }
        }
    }
}
