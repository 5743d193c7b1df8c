//! How late timers fire in this process: what the machine itself adds to every answer.
//!
//! The load, the proxies, the servers and the store share the processors. A task that does nothing
//! but wait is late when they have too much to do, and then every answer is: the delay tells a slow
//! machine from a slow server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// The time between two wakeups. Timers of tokio are up to a millisecond late on any machine.
const PERIOD: Duration = Duration::from_millis(5);

/// A task that measures until this is dropped.
#[derive(Debug)]
pub(crate) struct TimerDelay {
    longest_us: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl TimerDelay {
    pub(crate) fn start() -> Self {
        let longest_us = Arc::<AtomicU64>::default();
        let longest = Arc::clone(&longest_us);
        let task = tokio::spawn(async move {
            loop {
                let due = Instant::now() + PERIOD;
                sleep_until(due).await;
                let late = u64::try_from(due.elapsed().as_micros()).unwrap_or(u64::MAX);
                longest.fetch_max(late, Relaxed);
            }
        });
        Self { longest_us, task }
    }

    /// The longest delay so far.
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_micros(self.longest_us.load(Relaxed))
    }
}

impl Drop for TimerDelay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One thread, which is held up.
    #[tokio::test]
    async fn a_thread_that_is_held_up_is_seen() {
        let delay = TimerDelay::start();
        tokio::task::yield_now().await;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(30) {
            core::hint::spin_loop();
        }
        while delay.longest() < Duration::from_millis(20) {
            tokio::task::yield_now().await;
        }
    }
}
