//! A clock that a test moves.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use core::task::Waker;
use core::time::Duration;
use std::sync::Arc;

use super::Clock;
use super::wait::{WaitHandle, WaitQueue};
use crate::time::{MICROS_MAX, Micros, micros_of};

/// A clock for tests: it stands still until it is advanced or set, and `set` may go back.
///
/// Clones share the same time. Tasks that wait on the clock are woken when it moves, so deadlines
/// and back-off can be tested without sleeping.
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::store::Memory;
/// use tollgate_core::{Limit, Limiter, ManualClock, Quota};
///
/// let clock = ManualClock::at(1_700_000_000_000_000);
/// let limiter = Limiter::with_clock(Memory::new(), clock.clone()).build();
/// let api = Limit::gcra("api", Quota::per_second(1))?;
/// assert!(limiter.sync().check(api.charge("ada"))?.is_allowed());
/// assert!(!limiter.sync().check(api.charge("ada"))?.is_allowed());
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.sync().check(api.charge("ada"))?.is_allowed());
/// # Ok::<(), tollgate_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    now: Arc<AtomicU64>,
    waits: Arc<WaitQueue>,
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
        self.set(self.now().saturating_add(micros_of(by)));
    }

    /// Jumps to an instant, which may lie in the past. Held at the last instant that is in range.
    pub fn set(&self, now: Micros) {
        let now = now.min(MICROS_MAX - 1);
        self.now.store(now, SeqCst);
        self.waits.wake_due(now);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Micros {
        self.now.load(SeqCst)
    }

    fn wake_at(&self, at: Micros, waker: &Waker) -> WaitHandle {
        let handle = self.waits.add(at, waker);
        // It may have been moved just before.
        if self.now() >= at {
            waker.wake_by_ref();
        }
        handle
    }
}
