//! How many request ids are kept where each has a value of its own, so that there can be a
//! bound.
//!
//! Counting them on a backend would mean reading them all. So a process counts those that it wrote
//! itself, until they expire: several processes together may keep as many each. An id of
//! unknown fate counts.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::time::Micros;

/// Ids that expire within one of these are counted together, until its end.
const GRAIN: Micros = 1_000_000;

/// The request ids that this process has written.
#[derive(Debug, Default)]
pub(super) struct Ids(Mutex<Live>);

#[derive(Debug, Default)]
struct Live {
    /// How many expire by an instant.
    by_end: BTreeMap<Micros, usize>,
    total: usize,
}

impl Ids {
    /// How many more may be added at this instant, up to `max`.
    pub(super) fn room(&self, now: Micros, max: usize) -> usize {
        let mut live = self.lock();
        live.prune(now);
        max.saturating_sub(live.total)
    }

    /// Adds ids that expire at these instants; all or none, and `false` if there is no room
    /// within `max`.
    pub(super) fn add(&self, ends: &[Micros], max: usize) -> bool {
        let mut live = self.lock();
        if ends.len() > max.saturating_sub(live.total) {
            return false;
        }
        for end in ends {
            *live.by_end.entry(grain_of(*end)).or_default() += 1;
        }
        live.total += ends.len();
        true
    }

    /// Takes back what was added and not written.
    pub(super) fn remove(&self, ends: &[Micros]) {
        let mut live = self.lock();
        for end in ends {
            // Whatever has expired meanwhile is gone already.
            if let Some(count) = live.by_end.get_mut(&grain_of(*end))
                && let Some(less) = count.checked_sub(1)
            {
                *count = less;
                live.total = live.total.saturating_sub(1);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    fn prune(&mut self, now: Micros) {
        while let Some(first) = self.by_end.first_entry()
            && *first.key() <= now
        {
            self.total = self.total.saturating_sub(first.remove());
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

    #[test]
    fn there_is_room_until_the_bound_and_again_after_the_end() {
        let ids = Ids::default();
        assert!(ids.add(&[END, END - 1], 3));
        assert_eq!(ids.room(0, 3), 1);
        assert!(!ids.add(&[END, END], 3), "all or none");
        assert_eq!(ids.room(0, 3), 1);
        assert!(ids.add(&[END + GRAIN], 3));
        assert_eq!(ids.room(END - 1, 3), 0);
        assert_eq!(ids.room(END, 3), 2);
        assert_eq!(ids.room(END + GRAIN, 3), 3);
    }

    #[test]
    fn what_was_not_written_takes_no_room() {
        let ids = Ids::default();
        assert!(ids.add(&[END, END], 2));
        ids.remove(&[END]);
        assert_eq!(ids.room(0, 2), 1);
        assert_eq!(ids.room(END, 2), 2);
        ids.remove(&[END]);
        assert_eq!(ids.room(END, 2), 2, "it has expired already");
    }
}
