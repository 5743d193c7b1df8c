//! The only place that reads the time of the operating system.
//!
//! A reading takes the processor's time stamp counter where it is reliable, else the monotonic
//! clock of the operating system, and costs less than half of a reading of the wall clock. Once per
//! second one reading compares it with the wall clock, and corrects it.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::following::{Following, TickSource};
use super::{Clock, ClockHealth};
use crate::time::{Micros, micros_of};

/// This many ticks are scaled to learn how long one is.
const SAMPLE_TICKS: u64 = 1 << 50;
const NANOS_PER_MICRO: u128 = 1_000;

/// The time of the operating system, monotonic within the process.
///
/// It follows the wall clock: once per second it is compared with it. What it is behind is
/// corrected at once; what it is ahead is slewed, so that it never goes back.
///
/// ```
/// use tollgate_core::{Clock, SystemClock};
///
/// let clock = SystemClock::new();
/// let now = clock.now(); // Microseconds since the Unix epoch.
/// assert!(now > 1_700_000_000_000_000);
/// assert!(SystemClock::new().now() >= now, "all clocks of a process agree");
/// ```
#[derive(Clone, Debug)]
pub struct SystemClock(&'static Following<OperatingSystem>);

/// The counter of quanta and the wall clock.
#[derive(Debug)]
struct OperatingSystem(quanta::Clock);

static PROCESS: LazyLock<Following<OperatingSystem>> = LazyLock::new(|| {
    let counter = quanta::Clock::new();
    let sample = u128::from(counter.delta_as_nanos(0, SAMPLE_TICKS));
    let micros_per_tick = (sample << 64) / (u128::from(SAMPLE_TICKS) * NANOS_PER_MICRO);
    let micros_per_tick = u64::try_from(micros_per_tick).unwrap_or(u64::MAX);
    Following::new(OperatingSystem(counter), micros_per_tick)
});

impl SystemClock {
    /// The clock of this process. All of them agree.
    #[must_use]
    pub fn new() -> Self {
        Self(&PROCESS)
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
        self.0.now()
    }

    fn health(&self) -> ClockHealth {
        self.0.health()
    }
}

impl TickSource for OperatingSystem {
    #[inline]
    fn ticks(&self) -> u64 {
        self.0.raw()
    }

    fn wall(&self) -> Micros {
        micros_of(wall().duration_since(UNIX_EPOCH).unwrap_or_default())
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
