//! Request ids that were charged, for as long as they are kept.
//!
//! A record holds what is needed to derive the same decision again. It is written while the lock of
//! its partition is held around the whole admission, so that charging and remembering are one act.
//! Records are bounded, by number and by what they hold: when that is reached new ids are refused,
//! never old ones dropped.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::Evidence;
use super::fingerprint::Id;
use crate::charge::Admission;
use crate::error::{Code, Error, Result};
use crate::state::{QuotaId, State};
use crate::time::Micros;

/// Partitions with a lock of their own.
const PARTITIONS: usize = 16;
/// What holds more than this counts as several records: a refund keeps the whole state of its key,
/// and an admission over several keys the text of all of them.
const RECORD_BYTES: usize = 1_024;

#[derive(Debug)]
pub(super) struct Records {
    partitions: [Mutex<Partition>; PARTITIONS],
    /// What the records on all partitions weigh, and those that an admission under way may add.
    held: AtomicUsize,
    max: usize,
    /// Spreads ids over partitions.
    spread: RandomState,
}

#[derive(Debug, Default)]
pub(super) struct Partition {
    records: HashMap<RecordKey, Record>,
    /// Every record, the one that expires first on top: callers choose how long theirs are kept.
    by_expiry: BinaryHeap<Reverse<(Micros, RecordKey)>>,
}

/// A request id is scoped to the key of its first charge.
pub(super) type RecordKey = ((u64, u64), Box<str>);

#[derive(Debug)]
pub(super) struct Record {
    payload: Box<str>,
    outcome: Evidence,
    /// As how many records it counts.
    weight: usize,
}

impl Record {
    /// What is kept of an admission that is charged.
    pub(super) fn of(admission: &Admission<'_>, outcome: &Evidence) -> Self {
        let quota_ids = admission.charges().iter().map(|charge| charge.rule().quota_id()).collect();
        let charges = admission.charges().iter().zip(&outcome.before);
        let before: Vec<_> = charges
            .map(|(charge, before)| Some(charge.evidence(before.as_ref()?, outcome.now)))
            .collect();
        let payload: Box<str> = admission.payload().into();
        let words: usize = before.iter().flatten().map(|state| state.words.len()).sum();
        let states = before.len() * (size_of::<Option<State>>() + size_of::<QuotaId>());
        let bytes = payload.len() + states + words * size_of::<u64>();
        let weight = bytes.div_ceil(RECORD_BYTES);
        Self { payload, outcome: Evidence::replayed(outcome.now, before, quota_ids), weight }
    }
}

/// Room for one more record. Dropping it unused gives the room back.
#[derive(Debug)]
pub(super) struct Room<'a> {
    held: &'a AtomicUsize,
    weight: usize,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.held.fetch_sub(self.weight, Relaxed);
    }
}

impl Records {
    pub(super) fn new(max: usize) -> Self {
        Self {
            partitions: Default::default(),
            held: AtomicUsize::new(0),
            max,
            spread: RandomState::new(),
        }
    }

    pub(super) fn key(id: Id, request_id: &str) -> RecordKey {
        ((id.low, id.high), request_id.into())
    }

    /// The partition of a key, without the records that have expired.
    #[expect(clippy::cast_possible_truncation, reason = "any bits of the hash will do")]
    pub(super) fn lock(&self, key: &RecordKey, at: Micros) -> MutexGuard<'_, Partition> {
        let [partition, ..] = &self.partitions;
        let chosen = self.partitions.get(self.spread.hash_one(key) as usize % PARTITIONS);
        let mut partition =
            chosen.unwrap_or(partition).lock().unwrap_or_else(PoisonError::into_inner);
        self.forget_expired(&mut partition, at);
        partition
    }

    /// Room for one more record, or `queue_full`. The last one may weigh more than there was room
    /// for.
    pub(super) fn room(&self, record: &Record, at: Micros) -> Result<Room<'_>> {
        if let Some(room) = self.reserve(record.weight) {
            return Ok(room);
        }
        // The caller holds a partition, so it must not wait for another: the holder of another one
        // removes what has expired there.
        for mut partition in
            self.partitions.iter().filter_map(|partition| partition.try_lock().ok())
        {
            self.forget_expired(&mut partition, at);
        }
        self.reserve(record.weight).ok_or_else(|| {
            Error::new(
                Code::QueueFull,
                "too many request ids are being remembered; try again later",
            )
        })
    }

    /// What all records weigh, when no admission is under way.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    fn reserve(&self, weight: usize) -> Option<Room<'_>> {
        let more = |held: usize| (held < self.max).then_some(held.saturating_add(weight));
        let reserved = self.held.fetch_update(Relaxed, Relaxed, more);
        reserved.ok().map(|_| Room { held: &self.held, weight })
    }

    fn forget_expired(&self, partition: &mut Partition, at: Micros) {
        while let Some(Reverse((expires_at, _))) = partition.by_expiry.peek()
            && *expires_at <= at
            && let Some(Reverse((_, key))) = partition.by_expiry.pop()
        {
            if let Some(record) = partition.records.remove(&key) {
                self.held.fetch_sub(record.weight, Relaxed);
            }
        }
    }
}

impl Partition {
    /// The outcome of an earlier admission under the same id, if it is still remembered.
    pub(super) fn replay(
        &self,
        key: &RecordKey,
        admission: &Admission<'_>,
    ) -> Result<Option<Evidence>> {
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

    /// Keeps the record of an id that has none.
    pub(super) fn remember(
        &mut self,
        room: Room<'_>,
        key: RecordKey,
        record: Record,
        expires_at: Micros,
    ) {
        self.by_expiry.push(Reverse((expires_at, key.clone())));
        self.records.insert(key, record);
        // The record has taken the room; forgetting it gives it back.
        std::mem::forget(room);
    }
}
