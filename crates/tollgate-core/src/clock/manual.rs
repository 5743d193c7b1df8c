//! A clock that moves only when told to.

use core::task::Waker;
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Clock;
use crate::time::{MICROS_MAX, Micros};

/// A clock for tests: it stands still until it is advanced or set, and `set` may go back.
///
/// Clones share the same time. Tasks that wait on the clock are woken when it moves, so deadlines
/// and back-off can be tested without sleeping.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    now: Micros,
    waiting: Vec<(Micros, Waker)>,
}

impl ManualClock {
    /// A clock that reads `now` microseconds.
    #[must_use]
    pub fn at(now: Micros) -> Self {
        let clock = Self::default();
        clock.set(now);
        clock
    }

    /// Moves forward. Held at the last instant that is in range.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        let now = self.lock().now;
        self.set(now.saturating_add(by));
    }

    /// Jumps to an instant, which may lie in the past. Held at the last instant that is in range.
    pub fn set(&self, now: Micros) {
        let now = now.min(MICROS_MAX - 1);
        let mut inner = self.lock();
        inner.now = now;
        let (due, waiting) = inner.waiting.drain(..).partition(|(at, _)| *at <= now);
        inner.waiting = waiting;
        drop(inner);
        let due: Vec<(Micros, Waker)> = due;
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Micros {
        self.lock().now
    }

    fn wake_at(&self, at: Micros, waker: &Waker) {
        let mut inner = self.lock();
        if inner.now >= at {
            drop(inner);
            waker.wake_by_ref();
        } else {
            inner.waiting.retain(|(due, waiting)| *due != at || !waiting.will_wake(waker));
            inner.waiting.push((at, waker.clone()));
        }
    }
}
