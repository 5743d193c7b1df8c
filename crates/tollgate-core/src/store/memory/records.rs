//! Request ids of one policy that were charged, for as long as they are kept.
//!
//! A record holds what is needed to derive the same decision again. It is written while the lock of
//! its partition is held around the whole admission, so that charging and keeping are one act.
//! Records are bounded, by number and by what they hold, and so are those of one key: the ids of a
//! key are in one partition, where the key can be held to its share. When a bound is reached, the
//! record of a charge that expires first is forgotten early and counted, or new ids are refused.
//! The record of a refund is never forgotten early: the refund could be made again.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::Evidence;
use super::bounds::{Bounds, WhenIdsFull};
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
/// One key takes at most this part of the bound.
const SHARE_OF_A_KEY: usize = 16;

#[derive(Debug)]
pub(super) struct Records {
    partitions: [Mutex<Partition>; PARTITIONS],
    /// What the records on all partitions weigh, and those that an admission under way may add.
    held: AtomicUsize,
    max: usize,
    when_full: WhenIdsFull,
    /// Records that were forgotten before they expired.
    forgotten: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Partition {
    records: HashMap<RecordKey, Record>,
    /// The records of charges and those of refunds, the one that expires first at the front:
    /// callers choose how long theirs are kept.
    charges: BTreeSet<(Micros, RecordKey)>,
    refunds: BTreeSet<(Micros, RecordKey)>,
    keys: HashMap<Id, IdsOfKey>,
}

/// The records of one key.
#[derive(Debug, Default)]
struct IdsOfKey {
    weight: usize,
    /// Those that may be forgotten early.
    charges: BTreeSet<(Micros, Arc<str>)>,
}

/// A request id is scoped to the key of its first charge.
pub(super) type RecordKey = (Id, Arc<str>);

#[derive(Debug)]
pub(super) struct Record {
    payload: Box<str>,
    outcome: Evidence,
    /// As how many records it counts.
    weight: usize,
    is_refund: bool,
    expires_at: Micros,
}

impl Record {
    /// What is kept of an admission that is charged.
    pub(super) fn of(admission: &Admission<'_>, outcome: &Evidence, expires_at: Micros) -> Self {
        let quota_ids = admission.charges().iter().map(|charge| charge.rule().quota_id()).collect();
        let charges = admission.charges().iter().zip(&outcome.before);
        let before: Vec<_> = charges
            .map(|(charge, before)| Some(charge.evidence(before.as_ref()?, outcome.now)))
            .collect();
        let payload: Box<str> = admission.payload().into();
        let words: usize = before.iter().flatten().map(State::numbers).sum();
        let states = before.len() * (size_of::<Option<State>>() + size_of::<QuotaId>());
        let bytes = payload.len() + states + words * size_of::<u64>();
        let weight = bytes.div_ceil(RECORD_BYTES).max(1);
        let outcome = Evidence::replayed(outcome.now, before, quota_ids);
        let is_refund = admission.charges().iter().any(|charge| !charge.operation.takes());
        Self { payload, outcome, weight, is_refund, expires_at }
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
    pub(super) fn new(bounds: &Bounds) -> Self {
        Self {
            partitions: Default::default(),
            held: AtomicUsize::new(0),
            max: bounds.max_request_ids_or_default(),
            when_full: bounds.when_ids_full_or_default(),
            forgotten: AtomicU64::new(0),
        }
    }

    pub(super) fn key(id: Id, request_id: &str) -> RecordKey {
        (id, request_id.into())
    }

    /// The partition of a key, without the records that have expired.
    #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
    pub(super) fn lock(&self, (id, _): &RecordKey, at: Micros) -> MutexGuard<'_, Partition> {
        let [partition, ..] = &self.partitions;
        let chosen = self.partitions.get(id.spread() as usize % PARTITIONS);
        let mut partition =
            chosen.unwrap_or(partition).lock().unwrap_or_else(PoisonError::into_inner);
        self.forget_expired(&mut partition, at);
        partition
    }

    /// Room for one more record of a key in its partition, or `queue_full`. The last one may weigh
    /// more than there was room for.
    pub(super) fn room(
        &self,
        partition: &mut Partition,
        (id, _): &RecordKey,
        record: &Record,
        at: Micros,
    ) -> Result<Room<'_>> {
        let share = self.max.div_ceil(SHARE_OF_A_KEY);
        while partition.keys.get(id).is_some_and(|key| key.weight >= share) {
            let oldest = partition.oldest_of(*id).filter(|_| self.may_forget());
            self.forget_early(partition, &oldest.ok_or_else(full)?);
        }
        if let Some(room) = self.reserve(record.weight) {
            return Ok(room);
        }
        // The caller holds a partition, so it must not wait for another: the holder of another one
        // removes what has expired there.
        for mut other in self.partitions.iter().filter_map(|partition| partition.try_lock().ok()) {
            self.forget_expired(&mut other, at);
        }
        loop {
            if let Some(room) = self.reserve(record.weight) {
                return Ok(room);
            }
            if !self.may_forget() {
                return Err(full());
            }
            match partition.oldest() {
                Some(oldest) => self.forget_early(partition, &oldest),
                None => self.forget_one_elsewhere()?,
            }
        }
    }

    /// What all records weigh, when no admission is under way.
    pub(super) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// The bound on what they weigh.
    pub(super) const fn max(&self) -> usize {
        self.max
    }

    /// How many records were forgotten before they expired.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten.load(Relaxed)
    }

    fn may_forget(&self) -> bool {
        self.when_full == WhenIdsFull::ForgetOldest
    }

    fn reserve(&self, weight: usize) -> Option<Room<'_>> {
        let more = |held: usize| (held < self.max).then_some(held.saturating_add(weight));
        let reserved = self.held.fetch_update(Relaxed, Relaxed, more);
        reserved.ok().map(|_| Room { held: &self.held, weight })
    }

    fn forget_expired(&self, partition: &mut Partition, at: Micros) {
        while let Some(key) = partition.expired(at) {
            self.forget(partition, &key);
        }
    }

    /// The record that expires first in another partition that no admission holds.
    fn forget_one_elsewhere(&self) -> Result<()> {
        let free = self.partitions.iter().filter_map(|partition| partition.try_lock().ok());
        for mut other in free {
            if let Some(oldest) = other.oldest() {
                self.forget_early(&mut other, &oldest);
                return Ok(());
            }
        }
        Err(full())
    }

    fn forget_early(&self, partition: &mut Partition, key: &RecordKey) {
        self.forgotten.fetch_add(1, Relaxed);
        self.forget(partition, key);
    }

    fn forget(&self, partition: &mut Partition, key: &RecordKey) {
        if let Some(weight) = partition.remove(key) {
            self.held.fetch_sub(weight, Relaxed);
        }
    }
}

impl Partition {
    /// The outcome of an earlier admission under the same id, if it is still kept.
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
    pub(super) fn keep(&mut self, room: Room<'_>, key: RecordKey, record: Record) {
        let (id, request_id) = key.clone();
        let ids = self.keys.entry(id).or_default();
        ids.weight += record.weight;
        if record.is_refund {
            self.refunds.insert((record.expires_at, key.clone()));
        } else {
            ids.charges.insert((record.expires_at, request_id));
            self.charges.insert((record.expires_at, key.clone()));
        }
        self.records.insert(key, record);
        // The record has taken the room; forgetting it gives it back.
        std::mem::forget(room);
    }

    fn expired(&self, at: Micros) -> Option<RecordKey> {
        let mut first = [&self.charges, &self.refunds].into_iter().filter_map(BTreeSet::first);
        first.find(|(expires_at, _)| *expires_at <= at).map(|(_, key)| key.clone())
    }

    /// The record that may be forgotten early, and of one key.
    fn oldest(&self) -> Option<RecordKey> {
        self.charges.first().map(|(_, key)| key.clone())
    }

    fn oldest_of(&self, id: Id) -> Option<RecordKey> {
        let (_, request_id) = self.keys.get(&id)?.charges.first()?;
        Some((id, Arc::clone(request_id)))
    }

    /// Removes a record; what it weighed.
    fn remove(&mut self, key: &RecordKey) -> Option<usize> {
        let record = self.records.remove(key)?;
        let order = if record.is_refund { &mut self.refunds } else { &mut self.charges };
        order.remove(&(record.expires_at, key.clone()));
        if let Some(ids) = self.keys.get_mut(&key.0) {
            ids.weight -= record.weight;
            ids.charges.remove(&(record.expires_at, Arc::clone(&key.1)));
            if ids.weight == 0 {
                self.keys.remove(&key.0);
            }
        }
        Some(record.weight)
    }
}

fn full() -> Error {
    Error::new(Code::QueueFull, "too many request ids are being kept; try again later")
}
