//! The only place that asks the operating system for the time.
//!
//! The wall clock is read once per process; from then on time is that reading plus a monotonic
//! counter: the processor's time stamp counter where it is reliable, calibrated once, else the
//! monotonic clock of the operating system. So a process never sees a step back, and a reading costs
//! a third of what the operating system asks. Steps of the wall clock after the start are not
//! followed: durations stay exact, and `reset_at_ms` keeps counting from the wall time at the start.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::Clock;
use crate::time::Micros;

const NANOS_PER_MICRO: u64 = 1_000;

/// The time of the operating system, anchored once per process and monotonic from there.
#[derive(Clone, Debug)]
pub struct SystemClock {
    counter: quanta::Clock,
    /// The counter at the anchor.
    anchor: u64,
    epoch_at_anchor: Micros,
}

static ANCHOR: LazyLock<SystemClock> = LazyLock::new(|| {
    let counter = quanta::Clock::new();
    let since_epoch = wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    SystemClock {
        anchor: counter.raw(),
        counter,
        epoch_at_anchor: u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX),
    }
});

impl SystemClock {
    /// The clock of this process. All of them agree.
    #[must_use]
    pub fn new() -> Self {
        ANCHOR.clone()
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Micros {
        let since_anchor = self.counter.delta_as_nanos(self.anchor, self.counter.raw());
        self.epoch_at_anchor + since_anchor / NANOS_PER_MICRO
    }
}

#[inline]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the monotonic clock"
)]
pub(super) fn monotonic() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
fn wall() -> SystemTime {
    SystemTime::now()
}
