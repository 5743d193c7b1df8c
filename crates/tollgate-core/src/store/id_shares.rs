//! Request ids by policy and by key, so that one of them cannot take the room of all.
//!
//! For stores that keep the ids of all policies together. A process counts the ids that it has
//! written, until they expire. No policy takes more room than it leaves free, so one alone takes at
//! most half of it; a key takes at most a sixteenth. What other processes have written counts as
//! room that is taken.
//!
//! Where there is no room, the oldest ids of whatever takes too much are to be forgotten
//! ([`Forget`]): a sixteenth of them at once, so that the store looks for them rarely.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Owner;
use super::cas::record;
use super::memory::Bounds;
use crate::key::Key;
use crate::time::Micros;

/// One key takes at most this part of the bound.
const SHARE_OF_A_KEY: usize = 16;
/// This part of the ids that take too much is forgotten at once.
const FORGOTTEN: usize = 16;
/// Ids that expire within one of these are counted together, until its end.
const GRAIN: Micros = 1_000_000;

/// Request ids that a store is to forget before they expire: the oldest of those whose names begin
/// with a text. Never that of a settlement, which could be made again: see [`is_of_settlement`].
///
/// [`is_of_settlement`]: super::record::is_of_settlement
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Forget {
    /// How the names begin; empty for all of the store.
    pub names_begin_with: String,
    /// How many are to be forgotten.
    pub count: usize,
}

/// Whose request ids take too much room for one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    Key,
    Policy,
    Store,
}

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
    by_end: BTreeMap<Micros, HashMap<Owner, Ids>>,
}

/// Ids of one owner that expire together.
#[derive(Debug, Default)]
struct Ids {
    count: usize,
    /// Without those of settlements, which a store never forgets early.
    forgettable: usize,
}

/// An id that was counted.
#[derive(Debug)]
struct CountedId {
    owner: Owner,
    end: Micros,
    is_forgettable: bool,
}

/// Ids that are about to be written. They count until they expire if they are kept, and no longer
/// if they are dropped.
#[derive(Debug)]
#[must_use = "ids that are dropped are not counted"]
pub struct ReservedIds<'a> {
    shares: &'a IdShares,
    ids: Vec<CountedId>,
}

impl IdShares {
    /// Shares of this many ids; `usize::MAX` for no bound.
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
    /// What stands in the way of one more id of this owner while `free` more fit into the store;
    /// nothing if it fits.
    pub(super) fn excess(&self, owner: Owner, free: usize, bounds: &Bounds) -> Option<Excess> {
        let max = self.max_of_policy(bounds);
        if max == usize::MAX && free > 0 {
            return None;
        }
        let live = self.shares.lock();
        let of_policy = live.by_policy.get(&owner.policy).copied().unwrap_or_default();
        let of_key = live.by_key.get(&owner).copied().unwrap_or_default();
        if of_key >= max.div_ceil(SHARE_OF_A_KEY) {
            return Some(Excess::Key);
        }
        if free == 0 && of_policy == 0 {
            return Some(Excess::Store);
        }
        (of_policy >= free.min(max)).then_some(Excess::Policy)
    }

    /// The ids that are to be forgotten for one more under this key. They count no more. Nothing
    /// if only settlements are left.
    pub(super) fn forget(&self, excess: Excess, key: Key<'_>, bounds: &Bounds) -> Option<Forget> {
        let (owner, max) = (Owner::of(key), self.max_of_policy(bounds));
        let mut live = self.shares.lock();
        let is_meant = |other: &Owner| match excess {
            Excess::Key => *other == owner,
            Excess::Policy => other.policy == owner.policy,
            Excess::Store => true,
        };
        let (names_begin_with, of) = match excess {
            Excess::Key => (record::name(key, ""), max.div_ceil(SHARE_OF_A_KEY)),
            Excess::Policy => {
                let names = record::names_of_policy(key);
                (names, live.by_policy.get(&owner.policy).copied().unwrap_or_default())
            }
            Excess::Store => (String::new(), self.shares.max),
        };
        let count = (of / FORGOTTEN).max(1);
        let forgotten = live.forget_oldest(count, is_meant);
        // A full store may have ids that other processes wrote.
        let count = if excess == Excess::Store { count } else { forgotten };
        (count > 0).then_some(Forget { names_begin_with, count })
    }

    fn max_of_policy(&self, bounds: &Bounds) -> usize {
        bounds.max_request_ids_if_set().unwrap_or(usize::MAX).min(self.shares.max)
    }

    /// Adds an id that expires at this instant. Without any bound it is not counted.
    pub(super) fn add(&mut self, (owner, end): (Owner, Micros), may_forget: bool, bounds: &Bounds) {
        if self.max_of_policy(bounds) == usize::MAX {
            return;
        }
        let id = CountedId { owner, end: grain_of(end), is_forgettable: may_forget };
        self.shares.lock().add(&id);
        self.ids.push(id);
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
        self.ids.drain(..).for_each(|id| live.remove(&id));
    }
}

impl Live {
    fn add(&mut self, id: &CountedId) {
        *self.by_policy.entry(id.owner.policy).or_default() += 1;
        *self.by_key.entry(id.owner).or_default() += 1;
        let ids = self.by_end.entry(id.end).or_default().entry(id.owner).or_default();
        ids.count += 1;
        ids.forgettable += usize::from(id.is_forgettable);
    }

    /// Removes an id, unless it has expired or was forgotten meanwhile.
    fn remove(&mut self, id: &CountedId) {
        let Some(owners) = self.by_end.get_mut(&id.end) else { return };
        let Some(ids) = owners.get_mut(&id.owner) else { return };
        ids.count = ids.count.saturating_sub(1);
        ids.forgettable = ids.forgettable.saturating_sub(usize::from(id.is_forgettable));
        if ids.count == 0 {
            owners.remove(&id.owner);
        }
        if owners.is_empty() {
            self.by_end.remove(&id.end);
        }
        self.subtract(id.owner, 1);
    }

    fn forget_expired(&mut self, now: Micros) {
        while let Some(first) = self.by_end.first_entry()
            && *first.key() <= now
        {
            for (owner, ids) in first.remove() {
                self.subtract(owner, ids.count);
            }
        }
    }

    /// Counts up to this many ids no more, those that expire first, and returns how many.
    fn forget_oldest(&mut self, count: usize, is_meant: impl Fn(&Owner) -> bool) -> usize {
        let (mut left, mut forgotten) = (count, Vec::new());
        for owners in self.by_end.values_mut() {
            for (owner, ids) in owners.iter_mut().filter(|(owner, _)| is_meant(owner)) {
                let less = left.min(ids.forgettable);
                ids.forgettable -= less;
                ids.count -= less;
                left -= less;
                forgotten.push((*owner, less));
            }
            owners.retain(|_, ids| ids.count > 0);
            if left == 0 {
                break;
            }
        }
        self.by_end.retain(|_, owners| !owners.is_empty());
        for (owner, less) in forgotten {
            self.subtract(owner, less);
        }
        count - left
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
    use crate::key::Name;

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
            if reserved.excess(owner, free - count, &Bounds::new()).is_none() {
                reserved.add((owner, END), true, &Bounds::new());
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
        assert!(reserved.excess(owner(1, 1), 16, &Bounds::new()).is_some());
        drop(reserved);
        let reserved = shares.reserve(0);
        assert!(reserved.excess(owner(1, 1), 1, &Bounds::new()).is_none(), "nothing is held");
        assert!(shares.lock().by_policy.is_empty() && shares.lock().by_key.is_empty());
        let full = reserved.excess(owner(1, 1), 0, &Bounds::new());
        assert_eq!(full, Some(Excess::Store), "the store is full");
    }

    #[test]
    fn settlements_are_never_forgotten_and_what_is_forgotten_takes_no_room() {
        let shares = IdShares::new(64);
        let bounds = Bounds::new();
        let key = Key {
            prefix: &Name::new("prefix", "p").unwrap(),
            policy: &Name::new("policy", "q").unwrap(),
            subject: "k",
        };
        let owner = Owner::of(key);
        let mut reserved = shares.reserve(0);
        for second in 1..=4 {
            reserved.add((owner, second * GRAIN), second > 2, &bounds);
        }
        let excess = reserved.excess(owner, 60, &bounds);
        assert_eq!(excess, Some(Excess::Key), "a sixteenth of 64");
        for left in [3, 2] {
            let forget = reserved.forget(Excess::Key, key, &bounds);
            assert_eq!(forget.map(|forget| forget.count), Some(1));
            let live = shares.lock();
            assert_eq!((live.by_key[&owner], live.by_end.len()), (left, left));
        }
        assert_eq!(reserved.forget(Excess::Key, key, &bounds), None, "settlements are left");
        assert!(reserved.forget(Excess::Store, key, &bounds).is_some(), "others wrote ids too");
        reserved.keep();
        drop(shares.reserve(4 * GRAIN));
        let live = shares.lock();
        assert!(live.by_end.is_empty() && live.by_key.is_empty());
    }
}
