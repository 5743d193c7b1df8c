//! Request ids by policy and by key, so that one of them cannot take the room of all.
//!
//! For stores that keep the ids of all policies together. A process counts the ids that it has
//! written, until they expire. No policy takes more room than it leaves free, so one alone takes at
//! most half of it; a key takes at most a sixteenth. What other processes have written counts as
//! room that is taken.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Owner;
use crate::time::Micros;

/// One key takes at most this part of the bound.
const SHARE_OF_A_KEY: usize = 16;
/// Ids that expire within one of these are counted together, until its end.
const GRAIN: Micros = 1_000_000;

/// The request ids that a process has written to one store.
#[derive(Debug)]
pub struct IdShares {
    max: usize,
    live: Mutex<Live>,
}

#[derive(Debug, Default)]
struct Live {
    by_policy: HashMap<u64, usize>,
    by_key: HashMap<Owner, usize>,
    /// What expires by an instant.
    by_end: BTreeMap<Micros, HashMap<Owner, usize>>,
}

/// Ids that are about to be written. They count until they expire if they are kept, and no longer
/// if they are dropped.
#[derive(Debug)]
#[must_use = "ids that are dropped are not counted"]
pub struct ReservedIds<'a> {
    shares: &'a IdShares,
    ids: Vec<(Owner, Micros)>,
}

impl IdShares {
    /// Shares of this many ids.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { max, live: Mutex::default() }
    }

    /// Begins to add ids at this instant.
    pub fn reserve(&self, now: Micros) -> ReservedIds<'_> {
        self.lock().forget_expired(now);
        ReservedIds { shares: self, ids: Vec::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReservedIds<'_> {
    /// Whether one more id of this owner fits while `free` more fit into the store.
    pub(super) fn has_room(&self, owner: Owner, free: usize) -> bool {
        let live = self.shares.lock();
        let of_policy = live.by_policy.get(&owner.policy).copied().unwrap_or_default();
        let of_key = live.by_key.get(&owner).copied().unwrap_or_default();
        of_policy < free && of_key < self.shares.max.div_ceil(SHARE_OF_A_KEY)
    }

    /// Adds an id that expires at this instant.
    pub(super) fn add(&mut self, owner: Owner, end: Micros) {
        let end = grain_of(end);
        self.shares.lock().add(owner, end);
        self.ids.push((owner, end));
    }

    /// The ids are written, or may be.
    pub fn keep(mut self) {
        self.ids.clear();
    }
}

impl Drop for ReservedIds<'_> {
    fn drop(&mut self) {
        if self.ids.is_empty() {
            return;
        }
        let mut live = self.shares.lock();
        for (owner, end) in self.ids.drain(..) {
            live.remove(owner, end);
        }
    }
}

impl Live {
    fn add(&mut self, owner: Owner, end: Micros) {
        *self.by_policy.entry(owner.policy).or_default() += 1;
        *self.by_key.entry(owner).or_default() += 1;
        *self.by_end.entry(end).or_default().entry(owner).or_default() += 1;
    }

    /// Removes an id, unless it has expired meanwhile.
    fn remove(&mut self, owner: Owner, end: Micros) {
        let count = self.by_end.get_mut(&end).and_then(|owners| owners.get_mut(&owner));
        if let Some(count) = count
            && let Some(less) = count.checked_sub(1)
        {
            *count = less;
            self.subtract(owner, 1);
        }
    }

    fn forget_expired(&mut self, now: Micros) {
        while let Some(first) = self.by_end.first_entry()
            && *first.key() <= now
        {
            for (owner, count) in first.remove() {
                self.subtract(owner, count);
            }
        }
    }

    fn subtract(&mut self, owner: Owner, count: usize) {
        subtract(&mut self.by_policy, &owner.policy, count);
        subtract(&mut self.by_key, &owner, count);
    }
}

fn subtract<K: Eq + core::hash::Hash>(counts: &mut HashMap<K, usize>, key: &K, less: usize) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(less);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

fn grain_of(end: Micros) -> Micros {
    end.checked_next_multiple_of(GRAIN).unwrap_or(Micros::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Micros = 7 * GRAIN;

    fn owner(policy: u64, key: u64) -> Owner {
        Owner { policy, key }
    }

    /// How many ids of these owners fit, one after another, into a store that has `free` left.
    fn added(
        reserved: &mut ReservedIds<'_>,
        owners: impl Iterator<Item = Owner>,
        free: usize,
    ) -> usize {
        let mut count = 0;
        for owner in owners {
            if reserved.has_room(owner, free - count) {
                reserved.add(owner, END);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn a_policy_leaves_as_much_as_it_takes_and_a_key_takes_a_sixteenth() {
        let shares = IdShares::new(1_600);
        let mut reserved = shares.reserve(0);
        assert_eq!(added(&mut reserved, (0..5_000).map(|_| owner(1, 1)), 1_600), 100, "one key");
        assert_eq!(added(&mut reserved, (0..5_000).map(|key| owner(1, key)), 1_500), 700);
        assert_eq!(added(&mut reserved, (0..5_000).map(|key| owner(2, key)), 800), 400);
        assert_eq!(added(&mut reserved, (0..5_000).map(|key| owner(3, key)), 400), 200);
        reserved.keep();
        // A second later than the last one has expired, all of it is free again.
        let mut reserved = shares.reserve(END - 1);
        assert_eq!(added(&mut reserved, (0..9).map(|_| owner(1, 1)), 200), 0);
        let mut reserved = shares.reserve(END);
        assert_eq!(added(&mut reserved, (0..5_000).map(|key| owner(1, key)), 1_600), 800);
    }

    #[test]
    fn ids_that_were_not_written_take_no_room() {
        let shares = IdShares::new(16);
        let mut reserved = shares.reserve(0);
        assert_eq!(added(&mut reserved, [owner(1, 1), owner(1, 2)].into_iter(), 16), 2);
        assert!(!reserved.has_room(owner(1, 1), 16));
        drop(reserved);
        let reserved = shares.reserve(0);
        assert!(reserved.has_room(owner(1, 1), 1), "nothing is held");
        assert!(shares.lock().by_policy.is_empty() && shares.lock().by_key.is_empty());
        assert!(!reserved.has_room(owner(1, 1), 0), "the store is full");
    }
}
