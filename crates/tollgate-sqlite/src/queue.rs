//! What waits for a thread: bounded, taken many at a time.
//!
//! Whoever takes from it holds a [`Taker`]: when that ends, however it ends, what still waits is
//! dropped, so that no caller waits for a thread that is gone.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tollgate_core::store::patience::{Progress, Waiting};
use tollgate_core::{Code, Error, Result};

use crate::fault::closed;

/// Calls that may wait. The limiter has a bound of its own, which is lower.
const QUEUE_MAX: usize = 20_000;

/// A queue in front of one thread.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    arrived: Condvar,
    /// For those who wait.
    progress: Progress,
}

#[derive(Debug)]
struct Inner<T> {
    waiting: VecDeque<T>,
    is_closed: bool,
    /// How many have to wait before the taker is woken; 0 while it does not sleep.
    wanted: usize,
}

/// Why the taker was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Something waits.
    Work,
    /// Nothing came in time.
    Time,
    /// Nothing waits, and nothing will.
    End,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Arc<Self> {
        let inner = Inner { waiting: VecDeque::new(), is_closed: false, wanted: 0 };
        let (inner, arrived) = (Mutex::new(inner), Condvar::new());
        Arc::new(Self { inner, arrived, progress: Progress::new() })
    }

    /// Adds to the end.
    ///
    /// # Errors
    /// `queue_full`, or `store_unavailable` once it is closed. Both are marked as unsent.
    pub(crate) fn push(&self, item: T) -> Result<Waiting<'_>> {
        let waiting = self.progress.wait();
        let mut inner = self.lock();
        if inner.is_closed {
            return Err(closed());
        }
        if inner.waiting.len() >= QUEUE_MAX {
            return Err(Error::new(Code::QueueFull, "too many calls wait for SQLite").not_sent());
        }
        inner.waiting.push_back(item);
        let is_awaited = inner.wanted > 0 && inner.waiting.len() >= inner.wanted;
        drop(inner);
        // Waking somebody is a call to the operating system.
        if is_awaited {
            self.arrived.notify_one();
        }
        Ok(waiting)
    }

    /// Takes nothing more in; what waits is still served.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that takes from a queue.
#[derive(Debug)]
pub(crate) struct Taker<T>(pub(crate) Arc<Queue<T>>);

impl<T> Taker<T> {
    /// Tells those who wait how the work goes on.
    pub(crate) fn progress(&self) -> &Progress {
        &self.0.progress
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().waiting.len()
    }

    /// Waits until there is something to do, or so long.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Woken {
        self.wait_for(1, limit)
    }

    /// Waits until there is so much to do, or so long.
    pub(crate) fn wait_for(&self, wanted: usize, limit: Option<Duration>) -> Woken {
        let idle = |inner: &mut Inner<T>| inner.waiting.len() < wanted && !inner.is_closed;
        let mut inner = self.0.lock();
        inner.wanted = wanted;
        let mut inner = match limit {
            None => self.0.arrived.wait_while(inner, idle).unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                let waited = self.0.arrived.wait_timeout_while(inner, limit, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        inner.wanted = 0;
        match (inner.waiting.is_empty(), inner.is_closed) {
            (false, _) => Woken::Work,
            (true, true) => Woken::End,
            (true, false) => Woken::Time,
        }
    }

    /// Adds what waits to a batch, up to `max` in all.
    pub(crate) fn take(&self, batch: &mut Vec<T>, max: usize) {
        let mut inner = self.0.lock();
        let room = max.saturating_sub(batch.len()).min(inner.waiting.len());
        batch.extend(inner.waiting.drain(..room));
    }
}

impl<T> Drop for Taker<T> {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.is_closed = true;
        let left = core::mem::take(&mut inner.waiting);
        drop(inner);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_taken_in_order_and_in_parts() {
        let queue = Queue::new();
        let taker = Taker(Arc::clone(&queue));
        for number in 0..5 {
            queue.push(number).unwrap();
        }
        assert_eq!(taker.wait(None), Woken::Work);
        let mut batch = vec![9];
        taker.take(&mut batch, 3);
        assert_eq!(batch, [9, 0, 1]);
        queue.close();
        assert_eq!(queue.push(7).unwrap_err().code(), Code::StoreUnavailable);
        assert_eq!(taker.wait(None), Woken::Work, "what waits is still served");
        taker.take(&mut batch, 10);
        assert_eq!(batch, [9, 0, 1, 2, 3, 4]);
        assert_eq!(taker.wait(None), Woken::End);
    }

    #[test]
    fn a_taker_may_wait_for_several() {
        let queue = Queue::new();
        let taker = Taker(Arc::clone(&queue));
        queue.push(0).unwrap();
        assert_eq!(taker.wait_for(2, Some(Duration::ZERO)), Woken::Work, "less than wanted");
        std::thread::scope(|scope| {
            let pusher = scope.spawn(|| {
                for number in 1..4 {
                    queue.push(number).unwrap();
                }
            });
            assert_eq!(taker.wait_for(4, None), Woken::Work);
            assert_eq!(taker.len(), 4);
            pusher.join().unwrap();
            let closer = scope.spawn(|| queue.close());
            assert_eq!(taker.wait_for(5, None), Woken::Work, "nobody else will come");
            closer.join().unwrap();
        });
    }

    #[test]
    fn more_than_the_bound_is_refused() {
        let queue = Queue::new();
        for _ in 0..QUEUE_MAX {
            queue.push(()).unwrap();
        }
        let error = queue.push(()).unwrap_err();
        assert_eq!((error.code(), error.is_not_sent()), (Code::QueueFull, true));
    }

    #[test]
    fn a_taker_that_ends_leaves_nobody_waiting() {
        let queue = Queue::new();
        let held = Arc::new(());
        queue.push(Arc::clone(&held)).unwrap();
        drop(Taker(Arc::clone(&queue)));
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(queue.push(held).is_err());
    }
}
