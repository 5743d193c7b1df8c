//! The bytes of messages that a client has sent and that are not answered yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

/// The bytes of one message, which count against a bound until this is dropped.
#[derive(Debug)]
pub(crate) struct IncomingBytes {
    bound: Arc<Semaphore>,
    counted: AtomicUsize,
}

impl IncomingBytes {
    pub(crate) const fn new(bound: Arc<Semaphore>) -> Self {
        Self { bound, counted: AtomicUsize::new(0) }
    }

    /// Counts bytes that have arrived; `false` when there are too many.
    pub(crate) fn add(&self, bytes: usize) -> bool {
        let count = u32::try_from(bytes).unwrap_or(u32::MAX);
        let Ok(permit) = self.bound.try_acquire_many(count) else { return false };
        permit.forget();
        self.counted.fetch_add(bytes, Ordering::Relaxed);
        true
    }
}

impl Drop for IncomingBytes {
    fn drop(&mut self) {
        self.bound.add_permits(*self.counted.get_mut());
    }
}
