//! A backend whose round trips and lost races are counted, for operators.

use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};

use super::versioned::{Snapshot, Swap, Versioned};
use crate::error::Result;

/// A backend, and how many calls it has received.
pub(super) struct Counted<V> {
    backend: V,
    trips: AtomicU64,
    lost: AtomicU64,
}

impl<V: Versioned> Counted<V> {
    pub(super) const fn new(backend: V) -> Self {
        Self { backend, trips: AtomicU64::new(0), lost: AtomicU64::new(0) }
    }

    /// [`Versioned::read`].
    pub(super) async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        self.trips.fetch_add(1, Ordering::Relaxed);
        self.backend.read(keys).await
    }

    /// [`Versioned::swap`].
    pub(super) async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        self.trips.fetch_add(1, Ordering::Relaxed);
        let is_won = self.backend.swap(writes).await?;
        self.lost.fetch_add(u64::from(!is_won), Ordering::Relaxed);
        Ok(is_won)
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) fn trips(&self) -> u64 {
        self.trips.load(Ordering::Relaxed)
    }
}

impl<V> Deref for Counted<V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.backend
    }
}
