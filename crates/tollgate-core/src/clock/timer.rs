//! One thread per process that wakes tasks when their time has come.
//!
//! The core has no runtime, yet deadlines and back-off must fire under every executor. The thread
//! starts at the first deadline that has to wait, sleeps while there is none, and never keeps a
//! process alive.

use core::task::Waker;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::system::monotonic;
use crate::time::Micros;

/// Wakers by the instant they are due; the number keeps those of one instant apart.
type Queue = BTreeMap<(Instant, u64), Waker>;

static QUEUE: Mutex<(Queue, u64)> = Mutex::new((Queue::new(), 0));
static CHANGED: Condvar = Condvar::new();
/// Whether the thread could be started.
static THREAD: OnceLock<bool> = OnceLock::new();

/// Wakes `waker` once `after` has passed.
pub(super) fn wake_after(after: Micros, waker: Waker) {
    let running = *THREAD
        .get_or_init(|| thread::Builder::new().name("tollgate-timer".into()).spawn(run).is_ok());
    if !running {
        // Without a thread to wait on, the task looks again at once, and again.
        return waker.wake();
    }
    let due = monotonic() + Duration::from_micros(after);
    let mut guard = lock();
    let (queue, number) = &mut *guard;
    *number += 1;
    let is_first = queue.first_key_value().is_none_or(|((first, _), _)| due < *first);
    queue.insert((due, *number), waker);
    drop(guard);
    if is_first {
        CHANGED.notify_one();
    }
}

fn run() {
    let mut guard = lock();
    loop {
        let now = monotonic();
        let due = match guard.0.first_entry() {
            None => {
                guard = CHANGED.wait(guard).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            Some(first) if first.key().0 <= now => first.remove(),
            Some(first) => {
                let wait = first.key().0 - now;
                let woken = CHANGED.wait_timeout(guard, wait);
                guard = woken.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
        };
        drop(guard);
        due.wake();
        guard = lock();
    }
}

fn lock() -> MutexGuard<'static, (Queue, u64)> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}
