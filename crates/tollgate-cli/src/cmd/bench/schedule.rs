//! When requests are due: at a fixed rate, independent of earlier requests.
//!
//! Timers of the runtime wake within a millisecond, which is longer than most responses take. A
//! parked thread wakes within some ten microseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// A schedule of requests at a fixed rate.
#[derive(Debug)]
pub(super) struct Schedule {
    start: Instant,
    rate: u64,
    /// The number of requests.
    pub(super) total: u64,
    next: AtomicU64,
    due: Semaphore,
    stopped: AtomicBool,
}

impl Schedule {
    /// Requests at a rate for a duration, from now on.
    pub(super) fn start(rate: u64, duration: Duration, workers: usize) -> Arc<Self> {
        let total = u128::from(rate) * duration.as_micros() / 1_000_000;
        let schedule = Arc::new(Self {
            start: Instant::now(),
            rate,
            total: u64::try_from(total).unwrap_or(u64::MAX).max(1),
            next: AtomicU64::new(0),
            due: Semaphore::new(0),
            stopped: AtomicBool::new(false),
        });
        let releasing = Arc::clone(&schedule);
        thread::spawn(move || releasing.release(workers));
        schedule
    }

    /// Releases requests when they are due; at the end, wakes every worker so that it ends.
    fn release(&self, workers: usize) {
        let mut released = 0;
        while released < self.total && !self.stopped.load(Ordering::Relaxed) {
            let due = self.due_at(Instant::now()).min(self.total);
            if due > released {
                self.due.add_permits(usize::try_from(due - released).unwrap_or(1));
                released = due;
            }
            let wait = self.instant_of(released).saturating_duration_since(Instant::now());
            thread::park_timeout(wait.min(Duration::from_millis(100)));
        }
        self.due.add_permits(workers);
    }

    /// The number of requests that are due by an instant.
    fn due_at(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.start).as_nanos();
        u64::try_from(passed * u128::from(self.rate) / 1_000_000_000).unwrap_or(u64::MAX) + 1
    }

    /// The instant at which a request is due.
    fn instant_of(&self, index: u64) -> Instant {
        let nanos = u128::from(index) * 1_000_000_000 / u128::from(self.rate);
        self.start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Waits until another request is due: its number, and its instant. `None` at the end.
    pub(super) async fn next(&self) -> Option<(u64, Instant)> {
        self.due.acquire().await.ok()?.forget();
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        (index < self.total).then(|| (index, self.instant_of(index)))
    }

    /// Releases no more requests.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// The number of requests that workers took.
    pub(super) fn taken(&self) -> u64 {
        self.next.load(Ordering::Relaxed).min(self.total)
    }

    /// The time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Schedule;

    #[tokio::test]
    async fn rate_and_duration_set_the_number_of_requests_and_the_instant_of_each() {
        let schedule = Schedule::start(10_000, Duration::from_millis(20), 3);
        let mut seen = Vec::new();
        while let Some((index, due)) = schedule.next().await {
            assert_eq!(due - schedule.start, Duration::from_micros(100 * index));
            assert!(schedule.elapsed() >= due - schedule.start, "{index} was released too early");
            seen.push(index);
        }
        assert_eq!(seen, (0..200).collect::<Vec<_>>());
        // The other two workers see the end as well.
        assert!(schedule.next().await.is_none() && schedule.next().await.is_none());
    }
}
