//! The atomics of the critical section: the real ones, or those of the model checker.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU64, Ordering};

/// How often to look again before giving the processor away: a line is held for nanoseconds, unless
/// its holder was taken off the processor.
#[cfg(not(loom))]
const SPINS: u32 = 64;

/// Waits a moment for the holder of a line.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    #[cfg(not(loom))]
    spins: u32,
}

impl Backoff {
    #[cfg(not(loom))]
    #[cold]
    pub(super) fn wait(&mut self) {
        if self.spins < SPINS {
            self.spins += 1;
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }

    #[cfg(loom)]
    pub(super) fn wait(&mut self) {
        loom::thread::yield_now();
    }
}
