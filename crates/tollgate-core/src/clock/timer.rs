//! One thread per process that wakes tasks when they are due.
//!
//! The core has no runtime, yet deadlines and back-off must fire under every executor. The thread
//! starts at the first deadline that has to wait, sleeps while there is none, and never keeps a
//! process alive.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::task::Waker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, LazyLock, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use super::system::monotonic;
use super::wait::{WaitHandle, WaitQueue};
use crate::time::{Micros, micros_of};

/// Tasks by the instant at which they are due, in microseconds since the first one.
static QUEUE: LazyLock<Arc<WaitQueue>> = LazyLock::new(Arc::default);
static CHANGED: Condvar = Condvar::new();
/// Until when the thread sleeps. Written under the lock of the queue. Most waits end before they
/// are due, so a new one is nearly always due later, and need not wake the thread.
static SLEEPS_UNTIL: AtomicU64 = AtomicU64::new(0);
/// Whether the thread could be started.
static THREAD: OnceLock<bool> = OnceLock::new();
static START: OnceLock<Instant> = OnceLock::new();

/// Wakes `waker` once `after` has passed.
pub(super) fn wake_after(after: Micros, waker: &Waker) -> WaitHandle {
    let is_running = *THREAD
        .get_or_init(|| thread::Builder::new().name("tollgate-timer".into()).spawn(run).is_ok());
    if !is_running {
        // Without a thread to wait on, the task is polled again at once, and again.
        waker.wake_by_ref();
        return WaitHandle::none();
    }
    let due = now().saturating_add(after);
    let handle = QUEUE.add(due, waker);
    if due < SLEEPS_UNTIL.load(Relaxed) {
        CHANGED.notify_one();
    }
    handle
}

fn now() -> Micros {
    micros_of(monotonic().saturating_duration_since(*START.get_or_init(monotonic)))
}

fn run() {
    loop {
        for waker in QUEUE.take_due(now()) {
            // A waker that panics must not end all other deadlines.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
        let waits = QUEUE.lock();
        let until = waits.first().unwrap_or(Micros::MAX);
        SLEEPS_UNTIL.store(until, Relaxed);
        let sleep = Duration::from_micros(until.saturating_sub(now()));
        // Woken early or in vain, it starts over.
        drop(CHANGED.wait_timeout(waits, sleep));
    }
}
