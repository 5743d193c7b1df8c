//! The only place that reads the time of the operating system.
//!
//! The wall clock is read once per process; from then on time is that reading plus a monotonic
//! counter: the processor's time stamp counter where it is reliable, calibrated once, else the
//! monotonic clock of the operating system. A reading costs less than half of one of the operating
//! system. Steps of the wall clock after the start are not followed, and the counter drifts from it
//! by as much as its calibration was off: nodes that decide by their own clocks rely on the slack
//! of their store for that.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::Clock;
use crate::time::{Micros, micros_of};

/// This many ticks are scaled to learn how long one is.
const SAMPLE_TICKS: u64 = 1 << 50;
const NANOS_PER_MICRO: u128 = 1_000;

/// The time of the operating system, anchored once per process and monotonic from there.
#[derive(Clone, Debug)]
pub struct SystemClock {
    counter: quanta::Clock,
    /// The time since the epoch at which the counter stood at zero.
    epoch_at_zero: Micros,
    /// Microseconds per tick, times 2^64.
    micros_per_tick: u64,
}

static ANCHOR: LazyLock<SystemClock> = LazyLock::new(|| {
    let counter = quanta::Clock::new();
    let since_epoch = wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    let sample = u128::from(counter.delta_as_nanos(0, SAMPLE_TICKS));
    let micros_per_tick = (sample << 64) / (u128::from(SAMPLE_TICKS) * NANOS_PER_MICRO);
    let micros_per_tick = u64::try_from(micros_per_tick).unwrap_or(u64::MAX);
    let now = micros_of(since_epoch);
    let epoch_at_zero = now.saturating_sub(scaled(counter.raw(), micros_per_tick));
    SystemClock { counter, epoch_at_zero, micros_per_tick }
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
        self.epoch_at_zero + scaled(self.counter.raw(), self.micros_per_tick)
    }
}

/// Ticks of the counter as microseconds.
#[inline]
const fn scaled(ticks: u64, micros_per_tick: u64) -> Micros {
    ((ticks as u128 * micros_per_tick as u128) >> 64) as u64
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
