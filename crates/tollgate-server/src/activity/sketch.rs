//! The keys with the largest totals of a stream, in bounded memory: the Space-Saving algorithm of
//! Metwally, Agrawal and El Abbadi.
//!
//! A key that has no entry takes the one with the smallest count, and begins with that count: what
//! it cannot have had. So a count is never too low, and too high by at most the `error` of its
//! entry, which is at most `total / ENTRIES_MAX`; and a key with more than that has an entry.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The most keys that are counted at once.
pub(super) const ENTRIES_MAX: usize = 512;

/// Counts of keys.
#[derive(Debug, Default)]
pub(super) struct Sketch {
    entries: HashMap<Arc<str>, Counted>,
    /// The same entries by their counts.
    order: BTreeSet<(u64, Arc<str>)>,
}

/// What is known of a key: its total is between `count - error` and `count`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// At least the total of the key.
    pub(crate) count: u64,
    /// By how much it may be too high.
    pub(crate) error: u64,
}

impl Sketch {
    /// Adds to the total of a key.
    pub(super) fn add(&mut self, key: &str, amount: u64) {
        let (key, before) = match self.entries.remove_entry(key) {
            Some((key, counted)) => {
                let entry = (counted.count, key);
                self.order.remove(&entry);
                (entry.1, counted)
            }
            None => (Arc::from(key), self.make_room()),
        };
        let after = Counted { count: before.count.saturating_add(amount), ..before };
        self.order.insert((after.count, Arc::clone(&key)));
        self.entries.insert(key, after);
    }

    /// What a new key begins with: nothing, or the smallest count, whose entry is removed.
    fn make_room(&mut self) -> Counted {
        if self.entries.len() < ENTRIES_MAX {
            return Counted::default();
        }
        let Some((count, key)) = self.order.pop_first() else { return Counted::default() };
        self.entries.remove(&key);
        Counted { count, error: count }
    }

    /// What is known of a key without an entry: its total is at most the smallest count.
    fn absent(&self) -> Counted {
        match self.order.first() {
            Some((count, _)) if self.entries.len() == ENTRIES_MAX => {
                Counted { count: *count, error: *count }
            }
            _ => Counted::default(),
        }
    }
}

impl Counted {
    /// What is known of a key of which two streams each know a part.
    const fn plus(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            error: self.error.saturating_add(other.error),
        }
    }
}

/// The keys with the largest totals of two streams together, the largest first.
pub(super) fn top<'a>(one: &'a Sketch, other: &'a Sketch, most: usize) -> Vec<(&'a str, Counted)> {
    let (absent_in_one, absent_in_other) = (one.absent(), other.absent());
    let of_one = one.entries.iter().map(|(key, own)| {
        let others = other.entries.get(key).copied().unwrap_or(absent_in_other);
        (&**key, own.plus(others))
    });
    let alone = other.entries.iter().filter(|(key, _)| !one.entries.contains_key(*key));
    let of_other = alone.map(|(key, own)| (&**key, own.plus(absent_in_one)));
    let mut all: Vec<(&str, Counted)> = of_one.chain(of_other).collect();
    // Of two with the same count, the one that is known better comes first.
    let rank = |(key, counted): &(&'a str, Counted)| (Reverse(counted.count), counted.error, *key);
    // Those that are not listed need no order.
    if most < all.len() {
        all.select_nth_unstable_by_key(most, rank);
        all.truncate(most);
    }
    all.sort_unstable_by_key(rank);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_keys_are_counted_exactly() {
        let mut sketch = Sketch::default();
        for (key, amount) in [("a", 1), ("b", 5), ("a", 3), ("c", 2)] {
            sketch.add(key, amount);
        }
        let exact = |count| Counted { count, error: 0 };
        let empty = Sketch::default();
        let two = top(&sketch, &empty, 2);
        assert_eq!(two, [("b", exact(5)), ("a", exact(4))]);
        assert_eq!(top(&sketch, &sketch, 1), [("b", exact(10))]);
    }

    #[test]
    fn no_count_is_too_low_and_memory_is_bounded() {
        let mut sketch = Sketch::default();
        for _ in 0..ENTRIES_MAX {
            sketch.add("often", 1);
        }
        let others = 10 * ENTRIES_MAX;
        for other in 0..others {
            sketch.add(&other.to_string(), 1);
        }
        assert_eq!(sketch.entries.len(), ENTRIES_MAX);
        assert_eq!(sketch.order.len(), ENTRIES_MAX);
        let total = u64::try_from(ENTRIES_MAX + others).unwrap();
        let bound = total / u64::try_from(ENTRIES_MAX).unwrap();
        assert!(sketch.entries.values().all(|counted| counted.error <= bound));
        let empty = Sketch::default();
        let (name, often) = top(&sketch, &empty, 1)[0];
        assert_eq!(name, "often");
        assert!(often.count >= 512 && often.count - often.error <= 512, "{often:?}");
    }
}
