//! The clock of a Worker: `Date.now()`, and timers by `setTimeout`.
//!
//! A Worker's clock stands still while code runs and moves on with each I/O, in whole milliseconds.
//! A timer belongs to the request that set it, so each wait has a queue and a timer of its own: no
//! request is ever polled by the timer of another one.

use core::future::Future;
use core::task::{Context, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::task::Wake;

use tollgate_core::clock::{WaitHandle, WaitQueue};
use tollgate_core::store::Jitter;
use tollgate_core::{Clock, Micros};
use worker::Delay;
use worker::send::SendWrapper;

const MICROS_PER_MS: Micros = 1_000;

/// The clock of a Worker or a Durable Object.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerClock;

impl Clock for WorkerClock {
    fn now(&self) -> Micros {
        worker::Date::now().as_millis().saturating_mul(MICROS_PER_MS)
    }

    fn wake_at(&self, at: Micros, waker: &Waker) -> WaitHandle {
        let queue = Arc::new(WaitQueue::default());
        let handle = queue.add(at, waker);
        let wait = at.saturating_sub(self.now()).div_ceil(MICROS_PER_MS);
        let mut timer = Box::pin(Delay::from(Duration::from_millis(wait)));
        let due = Waker::from(Arc::new(Due(queue)));
        // The first poll starts the timer. Dropping it, with the handle, stops it.
        let _ = timer.as_mut().poll(&mut Context::from_waker(&due));
        handle.with_timer(SendWrapper::new(timer))
    }
}

/// Random numbers of the runtime: the standard library has none in a Worker.
pub(crate) fn jitter() -> Jitter {
    Jitter::seeded(worker::js_sys::Math::random().to_bits())
}

/// Wakes what waits once its timer has ended.
struct Due(Arc<WaitQueue>);

impl Wake for Due {
    fn wake(self: Arc<Self>) {
        self.0.wake_due(Micros::MAX - 1);
    }
}

/// A duration as whole microseconds, at most as many as any clock will ever read.
pub(crate) const fn micros(duration: Duration) -> Micros {
    let micros = duration.as_micros();
    if micros < (1 << 52) {
        #[expect(clippy::cast_possible_truncation, reason = "below 2^52")]
        let micros = micros as Micros;
        return micros;
    }
    1 << 52
}
