//! Where the records of a partition are, by 32 bits of the hash of their request id.
//!
//! An open table with linear probing, eight bytes an entry. The slot of a hash is its share of the
//! range of all hashes, so the table may have any length and grows by a quarter: a table that
//! doubled would take twice as many bytes for each record.

/// Slots of a new table.
const FIRST: usize = 32;
/// The bytes of a slot.
const SLOT_BYTES: usize = size_of::<Slot>();

/// The hash of an id, and where its record is; [`EMPTY`] for none.
type Slot = (u32, u32);

/// Where no record is: there are 14 logs, so no place is packed to this.
const EMPTY: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct Index {
    slots: Box<[Slot]>,
    len: usize,
}

impl Index {
    /// How many bytes it needs to take one more; nothing if there is room.
    pub(super) fn growth(&self) -> Option<usize> {
        // Seven eighths of the slots.
        let is_full = (self.len + 1) * 8 > self.slots.len() * 7;
        is_full.then(|| (self.grown() - self.slots.len()) * SLOT_BYTES)
    }

    /// Makes room, as [`Index::growth`] says.
    pub(super) fn grow(&mut self) {
        let slots = vec![(0, EMPTY); self.grown()].into_boxed_slice();
        let old = core::mem::replace(&mut self.slots, slots);
        self.len = 0;
        for (hash, place) in old {
            if place != EMPTY {
                self.insert(hash, place);
            }
        }
    }

    /// Frees its slots if it holds nothing; how many bytes that frees.
    pub(super) fn free_if_empty(&mut self) -> usize {
        if self.len > 0 || self.slots.len() <= FIRST {
            return 0;
        }
        core::mem::take(&mut self.slots).len() * SLOT_BYTES
    }

    fn grown(&self) -> usize {
        (self.slots.len() + self.slots.len() / 4).max(FIRST)
    }

    /// Adds a place, where there is room.
    pub(super) fn insert(&mut self, hash: u32, place: u32) {
        let free = self.from(hash).find(|&slot| self.at(slot).1 == EMPTY);
        if let Some(slot) = free.and_then(|slot| self.slots.get_mut(slot)) {
            *slot = (hash, place);
            self.len += 1;
        }
    }

    /// The place of this hash that `is` accepts.
    pub(super) fn find(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        let used = self.from(hash).map(|slot| self.at(slot)).take_while(|slot| slot.1 != EMPTY);
        used.filter(|slot| slot.0 == hash).map(|slot| slot.1).find(|place| is(*place))
    }

    /// Removes a place; whether it was there. What had to step aside for it moves back.
    pub(super) fn remove(&mut self, hash: u32, place: u32) -> bool {
        let wanted = |&slot: &usize| self.at(slot).1 == EMPTY || self.at(slot) == (hash, place);
        let found = self.from(hash).find(wanted).filter(|&slot| self.at(slot).1 != EMPTY);
        let Some(mut hole) = found else { return false };
        let len = self.slots.len();
        let mut next = (hole + 1) % len;
        loop {
            let (hash, place) = self.at(next);
            if place == EMPTY {
                break;
            }
            // How far each is behind the slot where the hash belongs.
            let home = self.home(hash);
            if (next + len - home) % len >= (next + len - hole) % len {
                self.set(hole, (hash, place));
                hole = next;
            }
            next = (next + 1) % len;
        }
        self.set(hole, (0, EMPTY));
        self.len -= 1;
        true
    }

    /// All slots once, from the one where a hash belongs.
    fn from(&self, hash: u32) -> impl Iterator<Item = usize> + use<> {
        let home = self.home(hash);
        (home..self.slots.len()).chain(0..home)
    }

    fn home(&self, hash: u32) -> usize {
        let share = u64::from(hash) * self.slots.len() as u64;
        usize::try_from(share >> 32).unwrap_or_default()
    }

    fn at(&self, slot: usize) -> Slot {
        self.slots.get(slot).copied().unwrap_or((0, EMPTY))
    }

    fn set(&mut self, slot: usize, to: Slot) {
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn places_are_found_until_they_are_removed() {
        let mut seed = 7_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            u32::try_from(seed >> 32).unwrap()
        };
        let (mut index, mut there) = (Index::default(), HashSet::new());
        for place in 0..20_000 {
            // Many share a hash, and the slots at the end are used too.
            let hash = if place % 3 == 0 { u32::MAX - random() % 8 } else { random() };
            if index.growth().is_some() {
                index.grow();
            }
            index.insert(hash, place);
            there.insert((hash, place));
            if place % 2 == 0 {
                let (hash, place) = *there.iter().next().unwrap();
                assert!(index.remove(hash, place));
                assert!(!index.remove(hash, place));
                there.remove(&(hash, place));
            }
            if place % 1_000 == 0 {
                for (hash, place) in &there {
                    assert_eq!(index.find(*hash, |one| one == *place), Some(*place));
                }
            }
        }
        assert_eq!(index.len, there.len());
        assert_eq!(index.find(5, |_| false), None);
    }
}
