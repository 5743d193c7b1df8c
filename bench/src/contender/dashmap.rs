//! A concurrent map and nothing else: no clock, no arithmetic, one increment. The floor.

use ::dashmap::DashMap;

use super::{Contender, Setup};

/// A counter per key in a `DashMap` with its default hasher.
#[derive(Debug)]
pub(crate) struct Counter {
    counts: DashMap<String, u64>,
    verdict: bool,
}

impl Contender for Counter {
    type Answer = u64;

    fn new(setup: &Setup) -> Self {
        Self { counts: DashMap::with_capacity(setup.keys), verdict: setup.path.is_allowed() }
    }

    #[inline]
    fn check(&self, key: &String) -> u64 {
        if let Some(mut count) = self.counts.get_mut(key) {
            *count += 1;
            return *count;
        }
        let mut count = self.counts.entry(key.clone()).or_insert(0);
        *count += 1;
        *count
    }

    /// A counter decides nothing: it repeats what is expected of the others.
    #[inline]
    fn is_allowed(&self, _: &u64) -> bool {
        self.verdict
    }
}
