//! A steady load on a limiter: a call is due at its time, whatever became of earlier ones.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, sleep_until};
use tollgate_core::store::BoxStore;
use tollgate_core::{Limit, Limiter};

use crate::sample::{Answer, Sample};
use crate::traffic::CALLER_PERIOD;

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

    /// Keeps `callers` busy for `duration`: each calls again as soon as it has its answer, but not
    /// within 10 ms.
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
                    let next = Instant::now() + CALLER_PERIOD;
                    load.call(caller % load.subjects.len().max(1)).await;
                    sleep_until(next).await;
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
                Ok(decision) => {
                    let allowed = decision.is_allowed();
                    let by_store = Answer::Store { allowed, replayed: decision.replayed };
                    decision.degraded.map_or(by_store, Answer::Degraded)
                }
                Err(error) => Answer::Failed(error.code().as_str().to_owned()),
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
