//! Where time comes from.
//!
//! Algorithms never read a clock: a [`Limiter`](crate::Limiter) reads one and passes the instant
//! on. [`SystemClock`] is the only code in Tollgate that asks the operating system for the time;
//! [`ManualClock`] is for tests, public, and may go back.

mod alarm;
mod manual;
#[cfg(not(target_arch = "wasm32"))]
mod system;
#[cfg(not(target_arch = "wasm32"))]
mod timer;

use core::fmt::Debug;
use core::future::{Future, poll_fn};
use core::task::Waker;

use crate::maybe_send::{MaybeSend, MaybeSync};
use crate::time::Micros;

pub(crate) use alarm::{Alarms, Sleep};
pub use manual::ManualClock;
#[cfg(not(target_arch = "wasm32"))]
pub use system::SystemClock;

/// Where time comes from.
pub trait Clock: Debug + MaybeSend + MaybeSync {
    /// Whole microseconds since the Unix epoch.
    fn now(&self) -> Micros;

    /// Wakes a task once this clock has reached `at`. May wake it earlier: the task looks again.
    ///
    /// The default suits every clock that runs at the pace of real time. On wasm32 it does nothing,
    /// because there is no thread to wait on: a host clock there brings its own.
    fn wake_at(&self, at: Micros, waker: &Waker) {
        #[cfg(not(target_arch = "wasm32"))]
        timer::wake_after(at.saturating_sub(self.now()), waker.clone());
        #[cfg(target_arch = "wasm32")]
        let _ = (at, waker);
    }
}

/// Completes once `clock` has reached `at`. Dropping it is always safe.
pub fn sleep_until(clock: &dyn Clock, at: Micros) -> impl Future<Output = ()> + MaybeSend + '_ {
    let mut sleep = Sleep::default();
    poll_fn(move |context| sleep.poll_until(clock, (clock.now(), at), context))
}
