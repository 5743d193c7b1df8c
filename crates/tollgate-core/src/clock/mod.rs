//! Where time comes from.
//!
//! Algorithms never read a clock: a [`Limiter`](crate::Limiter) reads one and passes the instant
//! on. [`SystemClock`] is the only code in Tollgate that asks the operating system for the time;
//! [`ManualClock`] is for tests, public, and may go back.

mod manual;
#[cfg(not(target_arch = "wasm32"))]
mod system;
#[cfg(not(target_arch = "wasm32"))]
mod timer;

use core::fmt::Debug;
use core::future::{Future, poll_fn};
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use crate::maybe_send::{MaybeSend, MaybeSync};
use crate::time::Micros;

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
    poll_fn(move |context| sleep.poll_until(clock, at, context))
}

/// Waiting for an instant that may still be moved.
#[derive(Default)]
pub(crate) struct Sleep {
    alarm: Option<Arc<Alarm>>,
}

impl Sleep {
    /// Ready once `clock` has reached `at`; else the task will be woken then.
    pub(crate) fn poll_until(
        &mut self,
        clock: &dyn Clock,
        at: Micros,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if clock.now() >= at {
            return Poll::Ready(());
        }
        // A future that is polled for other reasons must not fill the timer with copies of itself.
        if self.alarm.as_ref().is_some_and(|alarm| alarm.is_set(at, context.waker())) {
            return Poll::Pending;
        }
        self.let_go();
        let alarm = Arc::new(Alarm { at, task: Mutex::new(Some(context.waker().clone())) });
        clock.wake_at(at, &Arc::clone(&alarm).into());
        self.alarm = Some(alarm);
        // The clock may have moved between the look and the registration.
        if clock.now() >= at { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Sleep {
    /// The clock may keep the alarm until it is due; the task must not be kept with it.
    fn let_go(&mut self) {
        if let Some(alarm) = self.alarm.take() {
            drop(alarm.take());
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// A waker that is used up when the clock calls it: it may call early.
struct Alarm {
    at: Micros,
    task: Mutex<Option<Waker>>,
}

impl Alarm {
    fn is_set(&self, at: Micros, task: &Waker) -> bool {
        let waiting = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        self.at == at && waiting.as_ref().is_some_and(|waiting| waiting.will_wake(task))
    }

    fn take(&self) -> Option<Waker> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        if let Some(task) = self.take() {
            task.wake();
        }
    }
}
