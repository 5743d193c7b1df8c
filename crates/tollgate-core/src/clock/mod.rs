//! Where time comes from.
//!
//! Algorithms never read a clock: a [`Limiter`](crate::Limiter) reads one and passes the instant
//! on. [`SystemClock`] is the only code in Tollgate that reads the time of the operating system;
//! [`ManualClock`] is for tests, public, and may go back.

#[cfg(not(target_arch = "wasm32"))]
mod discipline;
#[cfg(not(target_arch = "wasm32"))]
mod following;
mod health;
mod manual;
#[cfg(not(target_arch = "wasm32"))]
mod system;
#[cfg(test)]
mod tests;
#[cfg(not(target_arch = "wasm32"))]
mod timer;
mod wait;

use core::fmt::Debug;
use core::future::{Future, poll_fn};
use core::task::Waker;

use crate::maybe_send::{MaybeSend, MaybeSync};
use crate::time::Micros;

pub use health::ClockHealth;
pub use manual::ManualClock;
#[cfg(not(target_arch = "wasm32"))]
pub use system::SystemClock;
pub use wait::{WaitHandle, WaitQueue};

pub(crate) use wait::Sleep;

/// Where time comes from.
pub trait Clock: Debug + MaybeSend + MaybeSync {
    /// Whole microseconds since the Unix epoch.
    fn now(&self) -> Micros;

    /// How this clock stands to the wall clock of its host. By default it is the wall clock.
    fn health(&self) -> ClockHealth {
        ClockHealth::default()
    }

    /// Wakes a task once this clock has reached `at`, unless the handle is dropped before. May wake
    /// it earlier: the task reads the clock again.
    ///
    /// The default suits every clock that runs at the pace of real time. On wasm32 it does nothing,
    /// because there is no thread to wait on: a host clock there brings its own.
    fn wake_at(&self, at: Micros, waker: &Waker) -> WaitHandle {
        #[cfg(not(target_arch = "wasm32"))]
        return timer::wake_after(at.saturating_sub(self.now()), waker);
        #[cfg(target_arch = "wasm32")]
        {
            let _ = (at, waker);
            WaitHandle::none()
        }
    }
}

/// Completes once `clock` has reached `at`. Dropping it is always safe.
pub fn sleep_until(clock: &dyn Clock, at: Micros) -> impl Future<Output = ()> + MaybeSend + '_ {
    let mut sleep = Sleep::default();
    poll_fn(move |context| sleep.poll_until(clock, (clock.now(), at), context))
}
