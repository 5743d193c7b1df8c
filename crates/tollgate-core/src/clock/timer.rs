//! One thread per process that wakes tasks when their time has come.
//!
//! The core has no runtime, yet deadlines and back-off must fire under every executor. The thread
//! starts at the first deadline that has to wait, sleeps while there is none, and never keeps a
//! process alive.
//!
//! Most deadlines are of calls that end long before. So those that are due at about the same time share
//! one entry: a busy process adds to a list, and the thread wakes once for all of them. A deadline
//! fires late by at most a 32nd of its length (64 microseconds at least), never early.

use core::task::Waker;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::system::monotonic;
use crate::time::Micros;

/// Wakers by the instant they are due, in microseconds since the first one.
type Queue = BTreeMap<Micros, Vec<Waker>>;

/// Deadlines closer together than this share an entry.
const GRAIN_MIN: Micros = 64;
/// The same as a part of their length, which is rounded up to a power of two.
const GRAIN_PART: Micros = 64;

static QUEUE: Mutex<Queue> = Mutex::new(Queue::new());
static CHANGED: Condvar = Condvar::new();
/// Whether the thread could be started.
static THREAD: OnceLock<bool> = OnceLock::new();
static START: OnceLock<Instant> = OnceLock::new();

/// Wakes `waker` once `after` has passed.
pub(super) fn wake_after(after: Micros, waker: Waker) {
    let running = *THREAD
        .get_or_init(|| thread::Builder::new().name("tollgate-timer".into()).spawn(run).is_ok());
    if !running {
        // Without a thread to wait on, the task looks again at once, and again.
        return waker.wake();
    }
    let due = due_at(now(), after);
    let mut queue = lock();
    let is_first = queue.first_key_value().is_none_or(|(first, _)| due < *first);
    queue.entry(due).or_default().push(waker);
    drop(queue);
    if is_first {
        CHANGED.notify_one();
    }
}

/// When a deadline fires: rounded up, so that many of them meet.
fn due_at(now: Micros, after: Micros) -> Micros {
    let length = after.checked_next_power_of_two().unwrap_or(1 << 63);
    let grain = (length / GRAIN_PART).max(GRAIN_MIN);
    now.saturating_add(after).checked_next_multiple_of(grain).unwrap_or(Micros::MAX)
}

fn now() -> Micros {
    let since = monotonic().saturating_duration_since(*START.get_or_init(monotonic));
    u64::try_from(since.as_micros()).unwrap_or(Micros::MAX)
}

fn run() {
    let mut queue = lock();
    loop {
        let wakers = match queue.first_entry() {
            None => {
                queue = CHANGED.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            Some(first) => match first.key().saturating_sub(now()) {
                0 => first.remove(),
                wait => {
                    let woken = CHANGED.wait_timeout(queue, Duration::from_micros(wait));
                    queue = woken.unwrap_or_else(PoisonError::into_inner).0;
                    continue;
                }
            },
        };
        drop(queue);
        for waker in wakers {
            // A waker that panics must not end all other deadlines.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
        queue = lock();
    }
}

fn lock() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_rounded_up_a_little_and_never_down() {
        let mut number: u64 = 12_345;
        for _ in 0..10_000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (now, after) = (number >> 20, number & 0xFF_FFFF);
            let due = due_at(now, after);
            assert!(due >= now + after);
            assert!(due - (now + after) <= (after / 32).max(GRAIN_MIN), "{now} {after} {due}");
        }
        assert_eq!(due_at(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn deadlines_of_one_moment_share_an_entry() {
        let dues: std::collections::BTreeSet<_> =
            (0..1_000).map(|now| due_at(1_000_000 + now, 100_000)).collect();
        assert!(dues.len() <= 2, "{dues:?}");
    }
}
