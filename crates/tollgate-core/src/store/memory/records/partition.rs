//! The records of a part of the keys of a policy: logs in the order of their making, and an index.
//!
//! Callers choose how long their records are kept, so there is a log for each order of magnitude of
//! that time: an expired record waits for those before it, at most sixteen times as long as it was
//! kept. Settlements have logs of their own, because they are not forgotten early. A record that is
//! removed elsewhere than at the front of its log is no longer in the index, and leaves the log
//! when it has come to the front.

use std::collections::HashMap;

use super::Room;
use super::index::Index;
use super::log::{Log, PLACES};
use super::record::{Common, Contents, Head, IdHash};
use super::shares::Shares;
use crate::store::Evidence;
use crate::time::{MICROS_PER_MS, Micros};

/// What is longer than this counts as several records: a refund keeps the whole state of its key,
/// and an admission may have many charges.
const RECORD_BYTES: usize = 512;
/// Logs of charges, and as many of settlements.
const CLASSES: usize = 7;
/// Keys of which it is remembered where their oldest record was.
const CURSORS_MAX: usize = 64;

/// As how many records one of this length counts.
pub(super) const fn weight_of(bytes: usize) -> usize {
    bytes.div_ceil(RECORD_BYTES)
}

/// Which log a record is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogNumber(usize);

impl LogNumber {
    pub(super) fn of(is_settlement: bool, keep: Micros) -> Self {
        let ms = (keep / MICROS_PER_MS).saturating_add(1);
        let class = usize::try_from(ms.ilog2() / 4).unwrap_or(CLASSES).min(CLASSES - 1);
        Self(if is_settlement { class + CLASSES } else { class })
    }
}

#[derive(Debug, Default)]
pub(in super::super) struct Partition {
    logs: [Log; 2 * CLASSES],
    /// Where each record is: the number of its log, and its place there.
    index: Index,
    common: Common,
    shares: Option<Shares>,
    /// By key and log, a place before which there is no record of the key.
    cursors: HashMap<(u32, usize), u32>,
}

impl Partition {
    /// The payload and the evidence of an id.
    pub(super) fn find(&self, id: &IdHash, at: Micros) -> Option<(u32, Option<Evidence>)> {
        let is_it = |packed| self.head(packed).is_some_and(|head| head.is_of(id));
        let bytes = self.bytes(self.index.find(id.hash, is_it)?);
        let head = Head::of(bytes)?;
        let bytes = bytes.get(..head.len).unwrap_or_default();
        // An expired one may wait behind others.
        let is_kept = self.common.expires_at(bytes).is_none_or(|expires_at| expires_at > at);
        is_kept.then(|| (head.payload, self.common.decode(bytes)))
    }

    /// The bytes of a record.
    pub(super) fn encode(&mut self, id: &IdHash, payload: u32, of: &Contents<'_>) -> Vec<u8> {
        self.common.encode(id, payload, of)
    }

    /// Keeps the record of an id that has none.
    pub(in super::super) fn keep(&mut self, mut room: Room<'_>, id: &IdHash) {
        // An expired one under the same id, that waits behind others.
        let is_it = |packed| self.head(packed).is_some_and(|head| head.is_of(id));
        if let Some(packed) = self.index.find(id.hash, is_it) {
            let (LogNumber(number), at) = unpack(packed);
            let weight = self.remove(LogNumber(number), at);
            // It takes its place in the bound.
            room.held.fetch_sub(weight, std::sync::atomic::Ordering::Relaxed);
        }
        let bytes = core::mem::take(&mut room.bytes);
        let Some(log) = self.logs.get_mut(room.place.0) else { return };
        let at = log.push(&bytes);
        self.index.insert(id.hash, pack(room.place, at));
        let weight = u32::try_from(room.weight).unwrap_or(u32::MAX);
        self.shares.get_or_insert_default().add(id.key, weight);
        // The record has taken the room; forgetting it gives it back.
        core::mem::forget(room);
    }

    /// How many more bytes are needed for a record; `None` if it can have no room.
    pub(super) fn growth(&self, place: LogNumber, len: usize) -> Option<usize> {
        let log = self.logs.get(place.0)?.growth(len)?;
        Some(log + self.index.growth().unwrap_or(0))
    }

    /// Takes the bytes that [`Partition::growth`] says.
    pub(super) fn grow(&mut self, place: LogNumber, len: usize) {
        if self.index.growth().is_some() {
            self.index.grow();
        }
        let Some(log) = self.logs.get_mut(place.0) else { return };
        if let Some(bytes @ 1..) = log.growth(len) {
            log.grow(bytes);
        }
    }

    /// What the records of a key weigh.
    pub(super) fn weight_of_key(&self, id: &IdHash) -> usize {
        self.shares.as_ref().map_or(0, |shares| shares.of(id.key))
    }

    /// The oldest record of a charge: of the fronts of the logs the one that expires first.
    pub(super) fn oldest(&self) -> Option<(LogNumber, u32)> {
        let fronts = self.logs.iter().take(CLASSES).enumerate().filter_map(|(number, log)| {
            let at = log.front()?;
            let bytes = log.at(at);
            Some((self.common.expires_at(bytes)?, (LogNumber(number), at)))
        });
        fronts.min_by_key(|(expires_at, _)| *expires_at).map(|(_, oldest)| oldest)
    }

    /// The oldest record of a charge of a key.
    pub(super) fn oldest_of(&mut self, id: &IdHash) -> Option<(LogNumber, u32)> {
        for number in 0..CLASSES {
            let log = self.logs.get(number)?;
            let known = self.cursors.get(&(id.key, number)).copied();
            let mut next = known.filter(|at| log.holds(*at)).or_else(|| log.front());
            while let Some(at) = next {
                let Some(head) = Head::of(log.at(at)) else { break };
                let is_found = head.key == id.key && self.is_kept(LogNumber(number), at, &head);
                next = log.next(at, head.len);
                if is_found {
                    if self.cursors.len() >= CURSORS_MAX {
                        self.cursors.clear();
                    }
                    self.cursors.insert((id.key, number), at);
                    return Some((LogNumber(number), at));
                }
            }
        }
        None
    }

    /// Removes a record; what it weighed. Its bytes are left.
    pub(super) fn remove(&mut self, place: LogNumber, at: u32) -> usize {
        let Some(head) = self.head(pack(place, at)) else { return 0 };
        let [hash, ..] = head.id;
        if !self.index.remove(hash, pack(place, at)) {
            return 0;
        }
        let weight = weight_of(head.len);
        if let Some(shares) = &mut self.shares {
            shares.subtract(head.key, u32::try_from(weight).unwrap_or(u32::MAX));
        }
        weight
    }

    /// Removes the records at the fronts of the logs that have expired, and those that were removed
    /// before; what they weighed, and the bytes that this frees.
    pub(super) fn pop(&mut self, is_expired: impl Fn(Micros) -> bool) -> (usize, usize) {
        let (mut weight, mut freed) = (0, 0);
        for number in 0..2 * CLASSES {
            while let Some(log) = self.logs.get(number)
                && let Some(at) = log.front()
                && let Some(head) = Head::of(log.at(at))
            {
                let place = LogNumber(number);
                if self.is_kept(place, at, &head) {
                    let expires_at = self.common.expires_at(log.at(at)).unwrap_or_default();
                    if !is_expired(expires_at) {
                        break;
                    }
                    weight += self.remove(place, at);
                }
                freed += self.logs.get_mut(number).map_or(0, |log| log.pop(head.len));
            }
        }
        (weight, freed + self.index.free_if_empty())
    }

    fn is_kept(&self, place: LogNumber, at: u32, head: &Head) -> bool {
        let [hash, ..] = head.id;
        let packed = pack(place, at);
        self.index.find(hash, |one| one == packed).is_some()
    }

    fn head(&self, packed: u32) -> Option<Head> {
        Head::of(self.bytes(packed))
    }

    fn bytes(&self, packed: u32) -> &[u8] {
        let (LogNumber(number), at) = unpack(packed);
        self.logs.get(number).map_or(&[], |log| log.at(at))
    }
}

/// The number of a log above a place in it.
fn pack(LogNumber(number): LogNumber, at: u32) -> u32 {
    u32::try_from(number).unwrap_or_default() * PLACES + at
}

fn unpack(packed: u32) -> (LogNumber, u32) {
    (LogNumber(usize::try_from(packed / PLACES).unwrap_or_default()), packed % PLACES)
}
