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

    /// What is known of any key: one without an entry has at most the smallest count.
    fn of(&self, key: &str) -> Counted {
        let absent = || match self.order.first() {
            Some((count, _)) if self.entries.len() == ENTRIES_MAX => {
                Counted { count: *count, error: *count }
            }
            _ => Counted::default(),
        };
        self.entries.get(key).copied().unwrap_or_else(absent)
    }
}

/// The keys with the largest totals of two streams together, the largest first.
pub(super) fn top<'a>(one: &'a Sketch, other: &'a Sketch, most: usize) -> Vec<(&'a str, Counted)> {
    let others = other.entries.keys().filter(|key| !one.entries.contains_key(*key));
    let both = one.entries.keys().chain(others).map(|key| {
        let (first, second) = (one.of(key), other.of(key));
        let count = first.count.saturating_add(second.count);
        (&**key, Counted { count, error: first.error.saturating_add(second.error) })
    });
    let mut all: Vec<(&str, Counted)> = both.collect();
    // Of two with the same count, the one that is known better comes first.
    let rank = |(key, counted): &(&'a str, Counted)| (Reverse(counted.count), counted.error, *key);
    all.sort_unstable_by_key(rank);
    all.truncate(most);
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
        let often = sketch.of("often");
        assert!(often.count >= 512 && often.count - often.error <= 512, "{often:?}");
    }
}
