//! Memory in bytes: a bound for the process, and what each policy takes of it.
//!
//! No policy takes more than it leaves free. So one policy alone takes at most half of the bound,
//! and whatever the others have taken, there is some left for a policy that has little.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The bytes of all policies of a store.
#[derive(Debug)]
pub(super) struct Budget {
    max: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, used: AtomicUsize::new(0) })
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }
}

/// What one policy takes of the budget.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    used: AtomicUsize,
    refusals: AtomicU64,
}

impl Share {
    pub(super) fn of(budget: &Arc<Budget>) -> Self {
        let (used, refusals) = (AtomicUsize::new(0), AtomicU64::new(0));
        Self { budget: Arc::clone(budget), used, refusals }
    }

    /// How often there were not enough bytes.
    pub(super) fn refusals(&self) -> u64 {
        self.refusals.load(Relaxed)
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Takes bytes; whether there were enough. Threads of one policy that take at the same time may
    /// together leave a little less than they took, but never exceed the bound.
    #[must_use]
    pub(super) fn take(&self, bytes: usize) -> bool {
        let own = self.used() + bytes;
        let more = |used: usize| {
            let free = self.budget.max.checked_sub(used + bytes)?;
            (own <= free).then_some(used + bytes)
        };
        let taken = self.budget.used.fetch_update(Relaxed, Relaxed, more).is_ok();
        if taken {
            self.used.fetch_add(bytes, Relaxed);
        } else {
            self.refusals.fetch_add(1, Relaxed);
        }
        taken
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
        self.budget.used.fetch_sub(bytes, Relaxed);
    }
}
