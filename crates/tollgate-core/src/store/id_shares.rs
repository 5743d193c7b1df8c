//! Request ids by policy and by key, so that one of them cannot take the room of all.
//!
//! For stores that keep the ids of all policies together. A process counts the ids that it has
//! written, until they expire. No policy takes more room than it leaves free, so one alone takes at
//! most half of it; a key takes at most a sixteenth. What other processes have written counts as
//! room that is taken.
//!
//! Where there is no room, the oldest ids of whatever takes too much are to be forgotten
//! ([`Forget`]): a sixteenth of them at once, so that the store looks for them rarely. For a store
//! that cannot look for them, the names of the ids are kept too.

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
/// No more names are forgotten at once: a backend deletes them in one request.
const NAMES_MAX: usize = 100;
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
    /// Which ones, where names are kept. A store that looks for the oldest itself gets none.
    pub names: Vec<String>,
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
    oldest: Oldest,
    live: Mutex<Live>,
}

/// How the oldest ids are forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Oldest {
    /// The store looks for them.
    FoundByStore,
    /// Their names are kept, and the store deletes them.
    Named,
    /// Not at all.
    Kept,
}

#[derive(Debug, Default)]
struct Live {
    by_policy: HashMap<u64, usize>,
    by_key: HashMap<Owner, usize>,
    /// What expires by an instant.
    by_end: BTreeMap<Micros, HashMap<Owner, Ids>>,
    total: usize,
}

/// Ids of one owner that expire together.
#[derive(Debug, Default)]
struct Ids {
    count: usize,
    /// Of those that may be forgotten, where names are kept.
    names: Vec<String>,
}

/// Ids that are about to be written. They count until they expire if they are kept, and no longer
/// if they are dropped.
#[derive(Debug)]
#[must_use = "ids that are dropped are not counted"]
pub struct ReservedIds<'a> {
    shares: &'a IdShares,
    max: usize,
    ids: Vec<ReservedId>,
    may_be_written: bool,
}

#[derive(Debug)]
struct ReservedId {
    owner: Owner,
    end: Micros,
    name: Option<String>,
}

impl IdShares {
    /// Shares of this many ids; `usize::MAX` for no bound.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { max, oldest: Oldest::FoundByStore, live: Mutex::default() }
    }

    /// Shares for a store that has to be told which ids it is to forget, if it can.
    pub(super) fn with_names(forgets: bool) -> Self {
        let oldest = if forgets { Oldest::Named } else { Oldest::Kept };
        Self { oldest, ..Self::new(usize::MAX) }
    }

    /// Begins to add ids at this instant.
    pub fn reserve(&self, now: Micros) -> ReservedIds<'_> {
        self.reserve_up_to(self.max, now)
    }

    /// The same with another bound.
    pub(super) fn reserve_up_to(&self, max: usize, now: Micros) -> ReservedIds<'_> {
        self.lock().forget_expired(now);
        ReservedIds { shares: self, max, ids: Vec::new(), may_be_written: false }
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReservedIds<'_> {
    /// How many more ids may be added, where no other process adds any.
    pub(super) fn room(&self) -> usize {
        self.max.saturating_sub(self.shares.lock().total)
    }

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
    /// if none can be forgotten.
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
            Excess::Store => (String::new(), self.max),
        };
        let count = (of / FORGOTTEN).max(1);
        match self.shares.oldest {
            Oldest::FoundByStore => {
                live.forget_oldest(count, is_meant);
                Some(Forget { names_begin_with, count, names: Vec::new() })
            }
            Oldest::Named => {
                let names = live.take_oldest_names(count.min(NAMES_MAX), is_meant);
                let count = names.len();
                (count > 0).then_some(Forget { names_begin_with, count, names })
            }
            Oldest::Kept => None,
        }
    }

    /// Whether ids under these bounds are counted: without any bound they are not.
    pub(super) fn counts(&self, bounds: &Bounds) -> bool {
        self.max_of_policy(bounds) < usize::MAX
    }

    fn max_of_policy(&self, bounds: &Bounds) -> usize {
        bounds.max_request_ids_if_set().unwrap_or(usize::MAX).min(self.max)
    }

    /// Adds an id of this name, unless it was never to be forgotten, that expires at this instant.
    pub(super) fn add(&mut self, owner: Owner, end: Micros, name: Option<String>) {
        let end = grain_of(end);
        self.shares.lock().add(owner, end);
        let name = name.filter(|_| self.shares.oldest == Oldest::Named);
        self.ids.push(ReservedId { owner, end, name });
    }

    /// The ids are written, or may be.
    pub fn keep(mut self) {
        self.sent();
    }

    /// The ids are about to be written: unless it is known that they were not, they count.
    pub(super) fn sent(&mut self) {
        self.may_be_written = true;
    }

    /// The ids were not written.
    pub(super) fn not_written(mut self) {
        self.may_be_written = false;
    }
}

impl Drop for ReservedIds<'_> {
    fn drop(&mut self) {
        if self.ids.is_empty() {
            return;
        }
        let mut live = self.shares.lock();
        for ReservedId { owner, end, name } in self.ids.drain(..) {
            if self.may_be_written {
                live.add_name(owner, end, name);
            } else {
                live.remove(owner, end);
            }
        }
    }
}

impl Live {
    fn add(&mut self, owner: Owner, end: Micros) {
        *self.by_policy.entry(owner.policy).or_default() += 1;
        *self.by_key.entry(owner).or_default() += 1;
        self.by_end.entry(end).or_default().entry(owner).or_default().count += 1;
        self.total += 1;
    }

    /// Notes the name of an id that was added, unless it has expired meanwhile.
    fn add_name(&mut self, owner: Owner, end: Micros, name: Option<String>) {
        let ids = self.by_end.get_mut(&end).and_then(|owners| owners.get_mut(&owner));
        if let Some(ids) = ids {
            ids.names.extend(name);
        }
    }

    /// Removes an id, unless it has expired meanwhile.
    fn remove(&mut self, owner: Owner, end: Micros) {
        let ids = self.by_end.get_mut(&end).and_then(|owners| owners.get_mut(&owner));
        if let Some(ids) = ids
            && let Some(less) = ids.count.checked_sub(1)
        {
            ids.count = less;
            self.subtract(owner, 1);
        }
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

    /// Counts this many ids no more, those that expire first.
    fn forget_oldest(&mut self, mut count: usize, is_meant: impl Fn(&Owner) -> bool) {
        let mut forgotten = Vec::new();
        for owners in self.by_end.values_mut() {
            for (owner, ids) in owners.iter_mut().filter(|(owner, _)| is_meant(owner)) {
                let less = count.min(ids.count);
                ids.count -= less;
                count -= less;
                forgotten.push((*owner, less));
            }
            owners.retain(|_, ids| ids.count > 0);
            if count == 0 {
                break;
            }
        }
        for (owner, less) in forgotten {
            self.subtract(owner, less);
        }
    }

    /// Takes this many names, of ids that expire first. They count no more.
    fn take_oldest_names(
        &mut self,
        count: usize,
        is_meant: impl Fn(&Owner) -> bool,
    ) -> Vec<String> {
        let (mut names, mut forgotten) = (Vec::new(), Vec::new());
        for owners in self.by_end.values_mut() {
            for (owner, ids) in owners.iter_mut().filter(|(owner, _)| is_meant(owner)) {
                let less = (count - names.len()).min(ids.names.len());
                names.extend(ids.names.drain(..less));
                ids.count = ids.count.saturating_sub(less);
                forgotten.push((*owner, less));
            }
            owners.retain(|_, ids| ids.count > 0);
            if names.len() == count {
                break;
            }
        }
        for (owner, less) in forgotten {
            self.subtract(owner, less);
        }
        names
    }

    fn subtract(&mut self, owner: Owner, count: usize) {
        self.total = self.total.saturating_sub(count);
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
            if reserved.excess(owner, free - count, &Bounds::new()).is_none() {
                reserved.add(owner, END, None);
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
}
