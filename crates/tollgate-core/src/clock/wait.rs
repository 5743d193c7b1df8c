//! Waits for an instant: tasks by the instant they wait for, and handles that cancel a wait.
//!
//! A clock of a host without threads, such as a Worker, keeps a [`WaitQueue`] per wait and lets a
//! timer of the host wake it; the handle owns that timer.
//!
//! Most waits are deadlines of calls that end long before. A wait that ends is removed, so a clock
//! holds as many entries as there are waits at the same time.

use core::fmt;
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Clock;
use crate::maybe_send::{MaybeSend, MaybeSync};
use crate::time::Micros;

/// The tasks that wait on a clock.
#[derive(Debug, Default)]
pub struct WaitQueue(Mutex<Waits>);

/// In the order of their entries. Most deadlines are equally far away when they are added, and end
/// in the order in which they began: entries are added at the back and removed near the front,
/// which moves few others and allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Waits {
    wakers: VecDeque<(Entry, Waker)>,
    added: u64,
}

/// The instant that a task waits for, and a number that tells the waits for it from each other.
type Entry = (Micros, u64);

impl Waits {
    /// For the timer thread, which wasm32 does not have.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn first(&self) -> Option<Micros> {
        self.wakers.front().map(|((at, _), _)| *at)
    }

    fn add(&mut self, at: Micros, waker: Waker) -> Entry {
        self.added += 1;
        let entry = (at, self.added);
        let earlier = self.wakers.partition_point(|(other, _)| *other < entry);
        self.wakers.insert(earlier, (entry, waker));
        entry
    }

    fn find(&self, entry: Entry) -> Option<usize> {
        self.wakers.binary_search_by_key(&entry, |(entry, _)| *entry).ok()
    }
}

impl WaitQueue {
    pub(super) fn lock(&self) -> MutexGuard<'_, Waits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a task that is to be woken at `at`.
    pub fn add(self: &Arc<Self>, at: Micros, waker: &Waker) -> WaitHandle {
        let waker = waker.clone();
        let entry = self.lock().add(at, waker);
        WaitHandle { entry: Some((Arc::clone(self), entry)), timer: None }
    }

    /// Wakes the tasks that are due.
    pub fn wake_due(&self, now: Micros) {
        self.take_due(now).for_each(Waker::wake);
    }

    /// Removes the tasks that are due.
    pub(super) fn take_due(&self, now: Micros) -> impl Iterator<Item = Waker> + use<> {
        let mut waits = self.lock();
        let due = waits.wakers.partition_point(|((at, _), _)| *at <= now);
        let due: Vec<_> = waits.wakers.drain(..due).collect();
        due.into_iter().map(|(_, waker)| waker)
    }
}

/// A wait that a clock has accepted. Dropping it cancels the wait.
#[must_use = "a wait is cancelled when its handle is dropped"]
pub struct WaitHandle {
    entry: Option<(Arc<WaitQueue>, Entry)>,
    /// A timer of the host, which stops when it is dropped.
    timer: Option<Box<dyn Timer>>,
}

/// Anything that may be dropped with a handle.
trait Timer: MaybeSend + MaybeSync {}

impl<T: MaybeSend + MaybeSync> Timer for T {}

impl WaitHandle {
    /// No wait: of a clock that has woken the task already, or that cannot wake tasks.
    pub const fn none() -> Self {
        Self { entry: None, timer: None }
    }

    /// The same wait, which owns the timer of the host that ends it.
    pub fn with_timer(mut self, timer: impl MaybeSend + MaybeSync + 'static) -> Self {
        self.timer = Some(Box::new(timer));
        self
    }

    /// Whether the task is still to be woken.
    fn will_wake(&self, waker: &Waker) -> bool {
        let Some((queue, entry)) = &self.entry else { return false };
        let waits = queue.lock();
        let own = waits.find(*entry).and_then(|index| waits.wakers.get(index));
        own.is_some_and(|(_, own)| own.will_wake(waker))
    }
}

impl Drop for WaitHandle {
    fn drop(&mut self) {
        if let Some((queue, entry)) = self.entry.take() {
            let mut waits = queue.lock();
            let waker = waits.find(entry).and_then(|index| waits.wakers.remove(index));
            drop(waits);
            // Outside of the lock: dropping a waker may run foreign code.
            drop(waker);
        }
    }
}

impl fmt::Debug for WaitHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitHandle").field("entry", &self.entry).finish_non_exhaustive()
    }
}

/// A wait for an instant that may still be moved.
#[derive(Debug, Default)]
pub(crate) struct Sleep(Option<(Micros, WaitHandle)>);

impl Sleep {
    /// Ready once `clock`, which read `now` just before, has reached `at`; else the task will be
    /// woken then, or earlier.
    pub(crate) fn poll_until(
        &mut self,
        clock: &dyn Clock,
        (now, at): (Micros, Micros),
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if now >= at {
            return Poll::Ready(());
        }
        let is_waiting = |(until, handle): &(Micros, WaitHandle)| {
            *until == at && handle.will_wake(context.waker())
        };
        if self.0.as_ref().is_some_and(is_waiting) {
            return Poll::Pending;
        }
        self.0 = Some((at, clock.wake_at(at, context.waker())));
        // The clock may have moved since it was read.
        if clock.now() >= at { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// A clock that never moves.
    #[derive(Debug, Default)]
    struct Stopped(Arc<WaitQueue>);

    impl Clock for Stopped {
        fn now(&self) -> Micros {
            0
        }

        fn wake_at(&self, at: Micros, waker: &Waker) -> WaitHandle {
            self.0.add(at, waker)
        }
    }

    fn wait(clock: &Stopped, at: Micros, woken: &Arc<Woken>) -> Sleep {
        let mut sleep = Sleep::default();
        poll(&mut sleep, clock, at, woken);
        sleep
    }

    fn poll(sleep: &mut Sleep, clock: &Stopped, at: Micros, woken: &Arc<Woken>) {
        let waker = Arc::clone(woken).into();
        assert!(sleep.poll_until(clock, (0, at), &mut Context::from_waker(&waker)).is_pending());
    }

    #[test]
    fn a_wait_that_ends_leaves_nothing_behind() {
        let (clock, woken) = (Stopped::default(), Arc::default());
        (0..10).for_each(|time| drop(wait(&clock, 100 + time, &woken)));
        assert_eq!(clock.0.lock().first(), None);
        clock.0.take_due(200).for_each(Waker::wake);
        assert_eq!(woken.0.load(Relaxed), 0);
    }

    #[test]
    fn each_task_is_woken_when_it_is_due() {
        let (clock, woken) = (Stopped::default(), Arc::default());
        let waits: Vec<_> = [100, 50, 100].map(|at| wait(&clock, at, &woken)).into();
        assert_eq!(clock.0.lock().first(), Some(50));
        for (now, expected) in [(49, 0), (50, 1), (99, 1), (100, 3)] {
            clock.0.take_due(now).for_each(Waker::wake);
            assert_eq!(woken.0.load(Relaxed), expected, "at {now}");
        }
        drop(waits);
    }

    #[test]
    fn a_wait_that_is_polled_again_has_one_entry_until_it_is_woken() {
        let (clock, woken) = (Stopped::default(), Arc::default());
        let mut sleep = wait(&clock, 100, &woken);
        (0..5).for_each(|_| poll(&mut sleep, &clock, 100, &woken));
        assert_eq!(clock.0.lock().wakers.len(), 1);
        // The clock wakes it too early: it waits again.
        clock.0.take_due(100).for_each(Waker::wake);
        poll(&mut sleep, &clock, 100, &woken);
        assert_eq!(clock.0.lock().wakers.len(), 1);
        poll(&mut sleep, &clock, 70, &woken);
        let waits = clock.0.lock();
        assert_eq!((waits.wakers.len(), waits.first()), (1, Some(70)));
    }

    #[test]
    fn the_newest_task_of_a_wait_is_woken() {
        let (clock, old, new) = (Stopped::default(), Arc::default(), Arc::default());
        let mut sleep = wait(&clock, 100, &old);
        poll(&mut sleep, &clock, 100, &new);
        clock.0.take_due(100).for_each(Waker::wake);
        assert_eq!((old.0.load(Relaxed), new.0.load(Relaxed)), (0, 1));
    }
}
