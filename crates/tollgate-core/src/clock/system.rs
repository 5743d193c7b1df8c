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

/// So many ticks are scaled to learn how long one is.
const SAMPLE_TICKS: u64 = 1 << 50;
const NANOS_PER_MICRO: u128 = 1_000;

/// The time of the operating system, anchored once per process and monotonic from there.
#[derive(Clone, Debug)]
pub struct SystemClock {
    counter: quanta::Clock,
    /// The counter at the anchor.
    anchor: u64,
    epoch_at_anchor: Micros,
    /// Microseconds per tick, times 2^64.
    micros_per_tick: u64,
}

static ANCHOR: LazyLock<SystemClock> = LazyLock::new(|| {
    let counter = quanta::Clock::new();
    let since_epoch = wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    let sample = u128::from(counter.delta_as_nanos(0, SAMPLE_TICKS));
    let micros_per_tick = (sample << 64) / (u128::from(SAMPLE_TICKS) * NANOS_PER_MICRO);
    SystemClock {
        anchor: counter.raw(),
        counter,
        epoch_at_anchor: u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX),
        micros_per_tick: u64::try_from(micros_per_tick).unwrap_or(u64::MAX),
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
        // Counters of different cores may differ by a few ticks: never before the anchor.
        let ticks = self.counter.raw().saturating_sub(self.anchor);
        let micros = (u128::from(ticks) * u128::from(self.micros_per_tick)) >> 64;
        let micros = micros as u64;
        self.epoch_at_anchor + micros
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
