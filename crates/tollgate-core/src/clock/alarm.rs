//! Waiting for an instant.
//!
//! Most waits are for deadlines of calls that end long before. What a clock was asked to do cannot be
//! taken back, so each of them would leave an alarm behind, and a busy process a hundred thousand. An
//! alarm may ring early, though: so one whose wait is over is lent to the next, which sets another when
//! it has rung. Then there are as many alarms as waits at the same time.

use core::fmt;
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use super::Clock;
use crate::time::Micros;

/// Alarms that are kept for later.
const SPARE_MAX: usize = 1_024;

/// Alarms of one clock whose waits are over.
#[derive(Default)]
pub(crate) struct Alarms(Mutex<Vec<Arc<Alarm>>>);

impl Alarms {
    /// An alarm that rings after `now`, by `at`, and wakes this task.
    fn lend(&self, (now, at): (Micros, Micros), task: &Waker) -> Option<Arc<Alarm>> {
        let mut spare = lock(&self.0);
        while let Some(alarm) = spare.pop() {
            // A clock may have dropped what it was asked to wake, with a runtime for example.
            let is_with_clock = Arc::strong_count(&alarm) > 1;
            if is_with_clock && (now..=at).contains(&alarm.at) && alarm.set(task) {
                return Some(alarm);
            }
        }
        None
    }

    fn give_back(&self, alarm: Arc<Alarm>) {
        let mut spare = lock(&self.0);
        if spare.len() < SPARE_MAX {
            spare.push(alarm);
        }
    }
}

impl fmt::Debug for Alarms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarms").finish_non_exhaustive()
    }
}

/// Waiting for an instant that may still be moved.
#[derive(Default)]
pub(crate) struct Sleep<'a> {
    alarms: Option<&'a Alarms>,
    alarm: Option<Arc<Alarm>>,
}

impl<'a> Sleep<'a> {
    /// With alarms of the clock that it will wait for.
    pub(crate) const fn with(alarms: &'a Alarms) -> Self {
        Self { alarms: Some(alarms), alarm: None }
    }

    /// Ready once `clock`, which read `now` a moment ago, has reached `at`; else the task will be woken
    /// then, or earlier.
    pub(crate) fn poll_until(
        &mut self,
        clock: &dyn Clock,
        (now, at): (Micros, Micros),
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if now >= at {
            return Poll::Ready(());
        }
        // A future that is polled for other reasons must not fill the timer with copies of itself.
        if self.alarm.as_ref().is_some_and(|alarm| alarm.is_set(at, context.waker())) {
            return Poll::Pending;
        }
        self.let_go();
        self.alarm = self.alarms.and_then(|alarms| alarms.lend((now, at), context.waker()));
        if self.alarm.is_some() {
            return Poll::Pending;
        }
        let alarm = Arc::new(Alarm::new(at, context.waker()));
        clock.wake_at(at, &Arc::clone(&alarm).into());
        self.alarm = Some(alarm);
        // The clock may have moved between the look and the registration.
        if clock.now() >= at { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The clock may keep the alarm until it is due; the task must not be kept with it.
    fn let_go(&mut self) {
        let Some(alarm) = self.alarm.take() else { return };
        if alarm.clear()
            && let Some(alarms) = self.alarms
        {
            alarms.give_back(alarm);
        }
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// A waker that is used up when the clock calls it: it may call early.
struct Alarm {
    at: Micros,
    task: Mutex<Task>,
}

/// Whom an alarm wakes.
enum Task {
    Waits(Waker),
    None,
    /// It has rung, and will not again.
    Woken,
}

impl Alarm {
    fn new(at: Micros, task: &Waker) -> Self {
        Self { at, task: Mutex::new(Task::Waits(task.clone())) }
    }

    /// Whether it wakes this task, by `at`.
    fn is_set(&self, at: Micros, task: &Waker) -> bool {
        let is_its = |waits: &Task| matches!(waits, Task::Waits(waker) if waker.will_wake(task));
        self.at <= at && is_its(&lock(&self.task))
    }

    /// Lets it wake another task, unless it has rung.
    fn set(&self, task: &Waker) -> bool {
        let mut waits = lock(&self.task);
        if matches!(*waits, Task::Woken) {
            return false;
        }
        *waits = Task::Waits(task.clone());
        true
    }

    /// Lets it wake no task. Whether it is still to ring.
    fn clear(&self) -> bool {
        let mut waits = lock(&self.task);
        if matches!(*waits, Task::Woken) {
            return false;
        }
        let before = core::mem::replace(&mut *waits, Task::None);
        drop(waits);
        // Foreign code must not run under the lock.
        drop(before);
        true
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        let before = core::mem::replace(&mut *lock(&self.task), Task::Woken);
        if let Task::Waits(task) = before {
            task.wake();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    /// Keeps what it is asked to wake.
    #[derive(Debug, Default)]
    struct Kept(Mutex<Vec<(Micros, Waker)>>);

    impl Clock for Kept {
        fn now(&self) -> Micros {
            0
        }

        fn wake_at(&self, at: Micros, waker: &Waker) {
            lock(&self.0).push((at, waker.clone()));
        }
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    fn wait<'a>(clock: &Kept, alarms: &'a Alarms, at: Micros, woken: &Arc<Woken>) -> Sleep<'a> {
        let mut sleep = Sleep::with(alarms);
        let waker = Arc::clone(woken).into();
        assert!(sleep.poll_until(clock, (0, at), &mut Context::from_waker(&waker)).is_pending());
        sleep
    }

    fn ring(clock: &Kept) {
        let rung = core::mem::take(&mut *lock(&clock.0));
        rung.into_iter().for_each(|(_, waker)| waker.wake());
    }

    #[test]
    fn an_alarm_is_lent_until_it_has_rung() {
        let (clock, alarms, woken) = (Kept::default(), Alarms::default(), Arc::default());
        (0..10).for_each(|time| drop(wait(&clock, &alarms, 100 + time, &woken)));
        assert_eq!(lock(&clock.0).len(), 1, "each wait ended before the next began");
        let second = wait(&clock, &alarms, 200, &woken);
        ring(&clock);
        assert_eq!(woken.0.load(Relaxed), 1, "it rings for the wait that has it");
        drop(second);
        let third = wait(&clock, &alarms, 300, &woken);
        assert_eq!(lock(&clock.0).len(), 1, "one that has rung is not lent");
        drop(third);
        ring(&clock);
        assert_eq!(woken.0.load(Relaxed), 1, "no task waited");
    }

    #[test]
    fn an_alarm_that_its_clock_has_dropped_is_not_lent() {
        let (clock, alarms, woken) = (Kept::default(), Alarms::default(), Arc::default());
        drop(wait(&clock, &alarms, 100, &woken));
        lock(&clock.0).clear();
        let second = wait(&clock, &alarms, 100, &woken);
        ring(&clock);
        assert_eq!(woken.0.load(Relaxed), 1);
        drop(second);
    }

    #[test]
    fn an_alarm_that_rings_too_late_is_not_lent() {
        let (clock, alarms, woken) = (Kept::default(), Alarms::default(), Arc::default());
        drop(wait(&clock, &alarms, 100, &woken));
        drop(wait(&clock, &alarms, 50, &woken));
        assert_eq!(lock(&clock.0).iter().map(|(at, _)| *at).collect::<Vec<_>>(), [100, 50]);
    }

    #[test]
    fn waits_at_the_same_time_have_alarms_of_their_own() {
        let (clock, alarms, woken) = (Kept::default(), Alarms::default(), Arc::default());
        let waits: Vec<_> = (0..3).map(|_| wait(&clock, &alarms, 100, &woken)).collect();
        assert_eq!(lock(&clock.0).len(), 3);
        ring(&clock);
        assert_eq!(woken.0.load(Relaxed), 3);
        drop(waits);
    }
}
