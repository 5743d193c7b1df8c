//! Request ids of one policy that were charged, for as long as they are kept.
//!
//! A record holds what is needed to derive the same decision again (`record`), in 64 bytes or less
//! for a charge of a schedule, the index and all else included. It is written while the lock of its
//! partition is held around the whole admission, so that charging and keeping are one act.
//!
//! Records are bounded, by number and by what they take of the budget of bytes, and so are those of
//! one key: the ids of a key are in one partition, where the key can be held to its share. When a
//! bound is reached, the oldest record of a charge is forgotten early and counted, or new ids are
//! refused. The record of a settlement is never forgotten early: it could be made again.

mod index;
mod log;
mod partition;
mod record;
mod shares;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::Evidence;
use super::bounds::{Bounds, WhenIdsFull};
use super::budget::Share;
use super::fingerprint::Id;
use crate::charge::{Admission, Operation};
use crate::error::{Code, Error, Result};
use crate::state::State;
use crate::time::Micros;

pub(super) use self::partition::Partition;
use self::partition::{LogNumber, weight_of};
use self::record::Contents;
pub(super) use self::record::IdHash;

/// Partitions with a lock of their own.
const PARTITIONS: usize = 16;
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
    /// The bytes of the records.
    share: Share,
    secrets: [RandomState; 2],
}

/// A record with room for it. Dropping it unused gives the room back.
#[derive(Debug)]
pub(super) struct Room<'a> {
    held: &'a AtomicUsize,
    weight: usize,
    bytes: Vec<u8>,
    place: LogNumber,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.held.fetch_sub(self.weight, Relaxed);
    }
}

impl Records {
    pub(super) fn new(bounds: &Bounds, share: Share) -> Self {
        Self {
            partitions: Default::default(),
            held: AtomicUsize::new(0),
            max: bounds.max_request_ids_or_default(),
            when_full: bounds.when_ids_full_or_default(),
            forgotten: AtomicU64::new(0),
            share,
            secrets: [RandomState::new(), RandomState::new()],
        }
    }

    /// The hash of a request id, which is scoped to the key of its first charge.
    #[expect(clippy::cast_possible_truncation, reason = "the parts of the hashes")]
    pub(super) fn hash(&self, key: Id, request_id: &str) -> IdHash {
        let spread = key.spread();
        let [low, high] = self.secrets.each_ref().map(|one| one.hash_one((key, request_id)));
        IdHash {
            hash: high as u32,
            rest: [low as u32, (low >> 32) as u32],
            key: (spread >> 32) as u32,
            partition: spread as usize % PARTITIONS,
        }
    }

    /// What an id is bound to. The cost of one charge as it is, anything else as its hash.
    #[expect(clippy::cast_possible_truncation, reason = "any 32 bits of the hash")]
    fn payload(&self, admission: &Admission<'_>) -> u32 {
        let [secret, _] = &self.secrets;
        let hash = || secret.hash_one(admission.payload()) as u32;
        match admission.charges() {
            [charge] if charge.operation == Operation::Take => {
                // Behind a secret number, as hashes are: no cost can be chosen to equal one.
                (charge.cost.get() as u32).wrapping_add(secret.hash_one(0_u8) as u32)
            }
            _ => hash(),
        }
    }

    /// The partition of a key, without the records that have expired.
    pub(super) fn lock(&self, id: &IdHash, at: Micros) -> MutexGuard<'_, Partition> {
        let [partition, ..] = &self.partitions;
        let chosen = self.partitions.get(id.partition).unwrap_or(partition);
        let mut partition = chosen.lock().unwrap_or_else(PoisonError::into_inner);
        self.forget_expired(&mut partition, at);
        partition
    }

    /// The outcome of an earlier admission under the same id, if it is still kept.
    pub(super) fn replay(
        &self,
        (partition, id): (&Partition, &IdHash),
        (admission, at): (&Admission<'_>, Micros),
    ) -> Result<Option<Evidence>> {
        match partition.find(id, at) {
            None => Ok(None),
            Some((payload, outcome)) if payload == self.payload(admission) => {
                let lost = || Error::new(Code::CorruptState, "a request id cannot be read");
                outcome.ok_or_else(lost).map(Some)
            }
            Some(_) => {
                let message = "this request id was used on this key for another request";
                Err(Error::new(Code::IdempotencyConflict, message).with_field("request_id"))
            }
        }
    }

    /// The record of an admission that is charged at `at` and kept for `keep`, and room for it in
    /// its partition, or `queue_full`. The last one may weigh more than there was room for.
    pub(super) fn room(
        &self,
        (partition, id): (&mut Partition, &IdHash),
        (admission, outcome): (&Admission<'_>, &Evidence),
        (at, keep): (Micros, Micros),
    ) -> Result<Room<'_>> {
        let quota_ids: Vec<_> =
            admission.charges().iter().map(|charge| charge.rule().quota_id()).collect();
        let charges = admission.charges().iter().zip(&outcome.before);
        let before: Vec<Option<State>> = charges
            .map(|(charge, before)| Some(charge.evidence(before.as_ref()?, outcome.now)))
            .collect();
        let outcome = Evidence::decided(outcome.now, before);
        let expires_at = at.saturating_add(keep);
        let contents = Contents { outcome: &outcome, quota_ids: &quota_ids, expires_at };
        let bytes = partition.encode(id, self.payload(admission), &contents);
        let place = LogNumber::of(admission.is_settlement(), keep);
        let weight = weight_of(bytes.len());
        self.reserve_share(partition, id)?;
        let room = self.reserve_number((partition, weight), at)?;
        self.reserve_bytes(partition, (place, bytes.len()))?;
        core::mem::forget(room);
        Ok(Room { held: &self.held, weight, bytes, place })
    }

    /// What all records weigh, when no admission is under way.
    pub(super) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// The bound on what they weigh.
    pub(super) const fn max(&self) -> usize {
        self.max
    }

    /// The bytes of the records.
    pub(super) fn bytes(&self) -> usize {
        self.share.used()
    }

    /// How many records were forgotten before they expired.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten.load(Relaxed)
    }

    fn may_forget(&self) -> bool {
        self.when_full == WhenIdsFull::ForgetOldest
    }

    /// Room within the share of the key.
    fn reserve_share(&self, partition: &mut Partition, id: &IdHash) -> Result<()> {
        let share = self.max.div_ceil(SHARE_OF_A_KEY);
        while partition.weight_of_key(id) >= share {
            let oldest = if self.may_forget() { partition.oldest_of(id) } else { None };
            self.forget_early(partition, oldest.ok_or_else(full)?);
        }
        Ok(())
    }

    /// Room within the bound on the number.
    fn reserve_number(
        &self,
        (partition, weight): (&mut Partition, usize),
        at: Micros,
    ) -> Result<Reserved<'_>> {
        if let Some(room) = self.reserve(weight) {
            return Ok(room);
        }
        // The caller holds a partition, so it must not wait for another: the holder of another one
        // removes what has expired there.
        for mut other in self.partitions.iter().filter_map(|partition| partition.try_lock().ok()) {
            self.forget_expired(&mut other, at);
        }
        loop {
            if let Some(room) = self.reserve(weight) {
                return Ok(room);
            }
            if !self.may_forget() {
                return Err(full());
            }
            match partition.oldest() {
                Some(oldest) => self.forget_early(partition, oldest),
                None => self.forget_one_elsewhere()?,
            }
        }
    }

    /// Room for the bytes of a record.
    fn reserve_bytes(
        &self,
        partition: &mut Partition,
        (place, len): (LogNumber, usize),
    ) -> Result<()> {
        loop {
            let Some(needed) = partition.growth(place, len) else { return Err(full()) };
            if needed == 0 || self.share.take(needed) {
                partition.grow(place, len);
                return Ok(());
            }
            let oldest = if self.may_forget() { partition.oldest() } else { None };
            self.forget_early(partition, oldest.ok_or_else(full)?);
        }
    }

    fn reserve(&self, weight: usize) -> Option<Reserved<'_>> {
        let more = |held: usize| (held < self.max).then_some(held.saturating_add(weight));
        let reserved = self.held.fetch_update(Relaxed, Relaxed, more);
        reserved.ok().map(|_| Reserved { held: &self.held, weight })
    }

    fn forget_expired(&self, partition: &mut Partition, at: Micros) {
        let removed = partition.pop(|expires_at| expires_at <= at);
        self.note_removed(removed);
    }

    /// The oldest record of a charge in another partition that no admission holds.
    fn forget_one_elsewhere(&self) -> Result<()> {
        let free = self.partitions.iter().filter_map(|partition| partition.try_lock().ok());
        for mut other in free {
            if let Some(oldest) = other.oldest() {
                self.forget_early(&mut other, oldest);
                return Ok(());
            }
        }
        Err(full())
    }

    fn forget_early(&self, partition: &mut Partition, (place, at): (LogNumber, u32)) {
        self.forgotten.fetch_add(1, Relaxed);
        let weight = partition.remove(place, at);
        self.note_removed((weight, 0));
        let removed = partition.pop(|_| false);
        self.note_removed(removed);
    }

    fn note_removed(&self, (weight, bytes): (usize, usize)) {
        if weight > 0 {
            self.held.fetch_sub(weight, Relaxed);
        }
        if bytes > 0 {
            self.share.give_back(bytes);
        }
    }
}

/// A part of the bound. Dropping it gives it back.
struct Reserved<'a> {
    held: &'a AtomicUsize,
    weight: usize,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.held.fetch_sub(self.weight, Relaxed);
    }
}

fn full() -> Error {
    Error::new(Code::QueueFull, "too many request ids are being kept; try again later")
}
