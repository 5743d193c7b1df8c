//! The primitives of loom, under the names of the standard library.

use core::time::Duration;
use std::sync::LockResult;

pub(super) use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
pub(super) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
pub(super) use loom::sync::{Mutex, MutexGuard};

/// A condition variable. Waiting has no limit: a wake-up that is missing is a deadlock, which loom
/// reports.
#[derive(Debug)]
pub(super) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(super) fn new() -> Self {
        Self(loom::sync::Condvar::new())
    }

    pub(super) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(super) fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut guard) {
            guard = self.0.wait(guard)?;
        }
        Ok(guard)
    }

    pub(super) fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        _: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, ())> {
        match self.wait_while(guard, condition) {
            Ok(guard) => Ok((guard, ())),
            Err(_) => unreachable!("no thread of a model panics and goes on"),
        }
    }
}
