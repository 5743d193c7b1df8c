//! What changed on a server: reloads, and when decisions began and ceased to be made without the
//! store. The last ones are kept.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tollgate::clock::{Clock, SystemClock};

/// The most changes that are kept.
const CHANGES_MAX: usize = 64;

/// The last changes.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    clock: SystemClock,
    newest_last: Mutex<VecDeque<Change>>,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) at_ms: u64,
    /// What changed, in a sentence without keys.
    pub(crate) text: String,
}

impl Changes {
    /// Notes a change that happened now.
    pub(crate) fn add(&self, text: impl Into<String>) {
        let change = Change { at_ms: self.clock.now() / 1_000, text: text.into() };
        // Nothing panics while it is locked.
        let mut changes = self.newest_last.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.len() == CHANGES_MAX {
            changes.pop_front();
        }
        changes.push_back(change);
    }

    /// The newest first.
    pub(crate) fn newest_first(&self) -> Vec<Change> {
        let changes = self.newest_last.lock().unwrap_or_else(PoisonError::into_inner);
        changes.iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_changes_are_kept() {
        let changes = Changes::default();
        for number in 0..100 {
            changes.add(number.to_string());
        }
        let newest = changes.newest_first();
        let expected = (36..100).rev().map(|number| number.to_string());
        assert!(newest.into_iter().map(|change| change.text).eq(expected));
    }
}
