//! A steady load on a limiter: a call is due at its time, whatever became of earlier ones.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tollgate_core::store::BoxStore;
use tollgate_core::{Code, Limit, Limiter, OutageMode};

/// What became of one call.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Which subject was charged, by its place in the list.
    pub subject: usize,
    /// When the call began.
    pub begun: Instant,
    /// How long it took.
    pub took: Duration,
    /// Its answer.
    pub answer: Answer,
}

/// The answer of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The store decided.
    Store,
    /// The outage mode decided.
    Degraded(OutageMode),
    /// There was no decision.
    Failed(Code),
}

/// Callers of one limiter.
#[derive(Debug)]
pub struct Load {
    limiter: Arc<Limiter<BoxStore>>,
    limit: Arc<Limit>,
    subjects: Arc<[String]>,
    samples: Arc<Mutex<Vec<Sample>>>,
}

impl Load {
    /// A load that charges one unit of each subject in turn.
    #[must_use]
    pub fn new(limiter: Limiter<BoxStore>, limit: Limit, subjects: Vec<String>) -> Self {
        Self {
            limiter: Arc::new(limiter),
            limit: Arc::new(limit),
            subjects: subjects.into(),
            samples: Arc::default(),
        }
    }

    /// The limiter.
    #[must_use]
    pub fn limiter(&self) -> &Limiter<BoxStore> {
        &self.limiter
    }

    /// Begins a call every `period` for as long as `duration`, and waits for the last answer.
    pub async fn run(&self, period: Duration, duration: Duration) {
        let end = Instant::now() + duration;
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut calls = JoinSet::new();
        let mut next = 0;
        while Instant::now() < end {
            ticks.tick().await;
            calls.spawn(self.call(next));
            next = (next + 1) % self.subjects.len().max(1);
        }
        calls.join_all().await;
    }

    /// Keeps `callers` busy for `duration`: each calls again as soon as it has its answer.
    pub async fn run_closed(&self, callers: usize, duration: Duration) {
        let end = Instant::now() + duration;
        let mut tasks = JoinSet::new();
        for caller in 0..callers {
            let load = Self {
                limiter: Arc::clone(&self.limiter),
                limit: Arc::clone(&self.limit),
                subjects: Arc::clone(&self.subjects),
                samples: Arc::clone(&self.samples),
            };
            tasks.spawn(async move {
                while Instant::now() < end {
                    load.call(caller % load.subjects.len().max(1)).await;
                    // A call that is refused at once must not keep the thread.
                    tokio::task::yield_now().await;
                }
            });
        }
        tasks.join_all().await;
    }

    fn call(&self, subject: usize) -> impl Future<Output = ()> + Send + 'static {
        let (limiter, limit) = (Arc::clone(&self.limiter), Arc::clone(&self.limit));
        let (subjects, samples) = (Arc::clone(&self.subjects), Arc::clone(&self.samples));
        async move {
            let begun = Instant::now();
            let name = subjects.get(subject).map_or("", String::as_str);
            let answer = match limiter.check(limit.charge(name)).await {
                Ok(decision) => decision.degraded.map_or(Answer::Store, Answer::Degraded),
                Err(error) => Answer::Failed(error.code()),
            };
            let sample = Sample { subject, begun, took: begun.elapsed(), answer };
            samples.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
        }
    }

    /// All samples since the last call of this, in the order of their answers.
    pub fn take(&self) -> Vec<Sample> {
        core::mem::take(&mut *self.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Samples in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// All calls.
    pub calls: usize,
    /// Calls that the store decided.
    pub by_store: usize,
    /// Calls that the outage mode decided.
    pub degraded: usize,
    /// Calls that were refused with `queue_full`.
    pub queue_full: usize,
    /// Calls that were refused with `conflict_exhausted`.
    pub conflicts: usize,
    /// Calls that failed otherwise.
    pub other_errors: usize,
    /// The longest answer.
    pub longest: Duration,
    /// The median answer.
    pub median: Duration,
}

impl Summary {
    /// The numbers of these samples.
    #[must_use]
    pub fn of<'s>(samples: impl IntoIterator<Item = &'s Sample>) -> Self {
        let mut summary = Self::default();
        let mut took = Vec::new();
        for sample in samples {
            summary.calls += 1;
            match sample.answer {
                Answer::Store => summary.by_store += 1,
                Answer::Degraded(_) => summary.degraded += 1,
                Answer::Failed(Code::QueueFull) => summary.queue_full += 1,
                Answer::Failed(Code::ConflictExhausted) => summary.conflicts += 1,
                Answer::Failed(_) => summary.other_errors += 1,
            }
            took.push(sample.took);
        }
        took.sort_unstable();
        summary.longest = took.last().copied().unwrap_or_default();
        summary.median = took.get(took.len() / 2).copied().unwrap_or_default();
        summary
    }

    /// The share of calls that the store decided, in hundredths of a percent, rounded down.
    #[must_use]
    pub fn store_share(&self) -> usize {
        self.by_store * 10_000 / self.calls.max(1)
    }
}

impl core::fmt::Display for Summary {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let share = self.store_share();
        write!(
            f,
            "{} calls: {} by the store ({}.{:02} %), {} degraded, {} queue_full, {} \
             conflict_exhausted, {} other errors; median {:.1} ms, longest {:.1} ms",
            self.calls,
            self.by_store,
            share / 100,
            share % 100,
            self.degraded,
            self.queue_full,
            self.conflicts,
            self.other_errors,
            self.median.as_secs_f64() * 1e3,
            self.longest.as_secs_f64() * 1e3,
        )
    }
}
