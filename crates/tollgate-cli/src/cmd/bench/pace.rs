//! When requests are due: at a fixed rate, whatever becomes of the earlier ones.
//!
//! Timers of a runtime wake within a millisecond, which is longer than most answers take. A thread
//! that parks wakes within some ten microseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// A schedule of requests that are due one after another.
#[derive(Debug)]
pub(super) struct Pace {
    start: Instant,
    rate: u64,
    /// How many there are.
    pub(super) total: u64,
    next: AtomicU64,
    due: Semaphore,
    stopped: AtomicBool,
}

impl Pace {
    /// So many requests per second for so long, from now on.
    pub(super) fn start(rate: u64, duration: Duration, workers: usize) -> Arc<Self> {
        let total = u128::from(rate) * duration.as_micros() / 1_000_000;
        let pace = Arc::new(Self {
            start: Instant::now(),
            rate,
            total: u64::try_from(total).unwrap_or(u64::MAX).max(1),
            next: AtomicU64::new(0),
            due: Semaphore::new(0),
            stopped: AtomicBool::new(false),
        });
        let beating = Arc::clone(&pace);
        thread::spawn(move || beating.beat(workers));
        pace
    }

    /// Lets requests go as they become due; in the end lets every worker see that there are no more.
    fn beat(&self, workers: usize) {
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

    /// How many requests are due by an instant.
    fn due_at(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.start).as_nanos();
        u64::try_from(passed * u128::from(self.rate) / 1_000_000_000).unwrap_or(u64::MAX) + 1
    }

    /// When a request is due.
    fn instant_of(&self, index: u64) -> Instant {
        let nanos = u128::from(index) * 1_000_000_000 / u128::from(self.rate);
        self.start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Waits until another request is due: its number, and when it was due. Nothing when there are
    /// no more.
    pub(super) async fn next(&self) -> Option<(u64, Instant)> {
        self.due.acquire().await.ok()?.forget();
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        (index < self.total).then(|| (index, self.instant_of(index)))
    }

    /// Sends nothing any more, though more was due.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// How many requests were taken to be sent.
    pub(super) fn taken(&self) -> u64 {
        self.next.load(Ordering::Relaxed).min(self.total)
    }

    /// How long it has run.
    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Pace;

    #[tokio::test]
    async fn as_many_requests_as_rate_and_duration_say_and_each_at_its_time() {
        let pace = Pace::start(10_000, Duration::from_millis(20), 3);
        let mut seen = Vec::new();
        while let Some((index, due)) = pace.next().await {
            assert_eq!(due - pace.start, Duration::from_micros(100 * index));
            assert!(pace.elapsed() >= due - pace.start, "{index} came too early");
            seen.push(index);
        }
        assert_eq!(seen, (0..200).collect::<Vec<_>>());
        // The other two workers see the end as well.
        assert!(pace.next().await.is_none() && pace.next().await.is_none());
    }
}
