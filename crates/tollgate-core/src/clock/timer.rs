//! One thread per process that wakes tasks when they are due.
//!
//! The core has no runtime, yet deadlines and back-off must fire under every executor. The thread
//! starts at the first deadline that has to wait, sleeps while there is none, and never keeps a
//! process alive.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use core::task::Waker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, LazyLock, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::system::monotonic;
use super::wait::{WaitHandle, WaitQueue};
use crate::time::{Micros, micros_of};

/// How many queues share the waits: calls on all cores begin and end waits, and seldom meet.
const QUEUES: usize = 16;
/// Tasks by the instant at which they are due, in microseconds since the first one.
static WAITS: LazyLock<[Arc<WaitQueue>; QUEUES]> = LazyLock::new(Default::default);
/// Until when the thread sleeps. Most waits end before they are due, so a new one is nearly always
/// due later, and need not wake the thread.
static SLEEPS_UNTIL: AtomicU64 = AtomicU64::new(Micros::MAX);
/// Held by the thread while it is awake and looks for the first wait.
static AWAKE: Mutex<()> = Mutex::new(());
static CHANGED: Condvar = Condvar::new();
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
    let handle = queue_of(waker).add(due, waker);
    if due < SLEEPS_UNTIL.load(SeqCst) {
        // The thread sleeps, or has yet to read this: it holds the lock from before it looks for
        // the first wait until it sleeps.
        drop(AWAKE.lock());
        CHANGED.notify_one();
    }
    handle
}

/// Tasks are spread by their address.
fn queue_of(waker: &Waker) -> &'static Arc<WaitQueue> {
    let task = waker.data().addr() as u64;
    let [first, ..] = &*WAITS;
    let index = task.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - QUEUES.ilog2());
    usize::try_from(index).ok().and_then(|index| WAITS.get(index)).unwrap_or(first)
}

fn now() -> Micros {
    micros_of(monotonic().saturating_duration_since(*START.get_or_init(monotonic)))
}

fn run() {
    loop {
        for waker in WAITS.iter().flat_map(|waits| waits.take_due(now())) {
            // A waker that panics must not end all other deadlines.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
        let awake = AWAKE.lock().unwrap_or_else(PoisonError::into_inner);
        // From here on, a wait that is added behind the search below wakes the thread.
        SLEEPS_UNTIL.store(Micros::MAX, SeqCst);
        let first = WAITS.iter().filter_map(|waits| waits.lock().first()).min();
        let until = first.unwrap_or(Micros::MAX);
        SLEEPS_UNTIL.store(until, SeqCst);
        let sleep = Duration::from_micros(until.saturating_sub(now()));
        // Woken early or in vain, it starts over.
        drop(CHANGED.wait_timeout(awake, sleep));
    }
}
