//! The store as callers see it: what they ask is copied, queued for a worker, and awaited.
//!
//! A caller that goes away before its round is written is not charged, and nobody waits for it:
//! workers are tasks of their own.

use core::hash::{BuildHasher, BuildHasherDefault};
use core::pin::pin;
use core::sync::atomic::Ordering;
use std::collections::hash_map::DefaultHasher;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tollgate_core::store::patience::{Progress, Waiting};
use tollgate_core::store::{
    BatchResults, CallContext, Capability, Evidence, Loaded, MultiKey, Store, TimeSource,
};
use tollgate_core::{Admission, Charge, Code, Error, Key, Now, Result, State};

use crate::config::{Config, Durability};
use crate::fault::{closed, corrupt};
use crate::job::{Job, text_of};
use crate::link::Shared;
use crate::look::{self, Ask};
use crate::sweep;
use crate::worker;

/// Calls that may wait for one worker. The limiter has a bound of its own, which is lower.
const QUEUE_MAX: usize = 20_000;

/// Limits in PostgreSQL.
#[derive(Debug)]
pub struct Postgres {
    shared: Arc<Shared>,
    workers: Vec<Line<Job>>,
    looker: Line<Ask>,
    closing: watch::Sender<bool>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// The way to a task: what waits for it, and how its work goes on.
#[derive(Debug)]
struct Line<T> {
    queue: mpsc::Sender<T>,
    progress: Arc<Progress>,
}

impl<T> Line<T> {
    /// A line, and its other end.
    fn new() -> (Self, mpsc::Receiver<T>, Arc<Progress>) {
        let (queue, taken) = mpsc::channel(QUEUE_MAX);
        let progress = Arc::new(Progress::new());
        (Self { queue, progress: Arc::clone(&progress) }, taken, progress)
    }

    /// Joins the line.
    fn send(&self, item: T) -> Result<Waiting<'_>> {
        let waiting = self.progress.wait();
        self.queue.try_send(item).map_err(|refused| unqueued(&refused))?;
        Ok(waiting)
    }
}

/// An answer that is waited for.
type Answer<'s> = (oneshot::Receiver<Result<Evidence>>, Waiting<'s>);

impl Postgres {
    /// A store that connects when it is first asked, on the tokio runtime this is called in. Its
    /// tables are made then, if they are not there.
    ///
    /// # Errors
    /// `config_invalid` when the certificates to trust cannot be read, the retries make no sense, or
    /// outside of a runtime.
    pub fn open(config: Config) -> Result<Self> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
            Error::config("runtime", "is missing; open the store inside of a tokio runtime")
        })?;
        config.retries.validated()?;
        let shared = Shared::new(config)?;
        let (closing, closing_seen) = watch::channel(false);
        let mut tasks = Vec::new();
        let mut workers = Vec::new();
        for _ in 0..shared.config.connections {
            let (line, queue, progress) = Line::new();
            let work = worker::work(Arc::clone(&shared), (queue, progress), closing_seen.clone());
            tasks.push(runtime.spawn(work));
            workers.push(line);
        }
        let (looker, queue, progress) = Line::new();
        let looks = look::work(Arc::clone(&shared), (queue, progress), closing_seen.clone());
        tasks.push(runtime.spawn(looks));
        if let Some(every) = shared.config.sweep_every {
            tasks.push(runtime.spawn(sweep::work(Arc::clone(&shared), every, closing_seen)));
        }
        Ok(Self { shared, workers, looker, closing, tasks: Mutex::new(tasks) })
    }

    /// [`Postgres::open`], but connects at once, and makes or checks the tables.
    ///
    /// # Errors
    /// As [`Postgres::open`]; when the server cannot be reached or refuses; when the tables were made
    /// by a newer version.
    pub async fn connect(config: Config) -> Result<Self> {
        let store = Self::open(config)?;
        drop(store.shared.connect().await?);
        Ok(store)
    }

    /// Makes the tables, or changes them to what this version needs.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses; when the tables were made by a newer version.
    pub async fn migrate(config: Config) -> Result<()> {
        Shared::new(config)?.migrate().await
    }

    /// Removes expired rows now, at the pace of the sweeps in the background; how many went.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses. What was removed until then is gone.
    pub async fn sweep(&self) -> Result<u64> {
        sweep::sweep(&self.shared).await
    }

    fn submit(
        &self,
        admission: &Admission<'_>,
        at: TimeSource,
        worker: Option<usize>,
    ) -> Result<Answer<'_>> {
        self.check(at)?;
        let (job, answer) = Job::new(admission, at)?;
        let worker = worker.unwrap_or_else(|| self.worker_of(job.home()));
        let line = self.workers.get(worker).ok_or_else(closed)?;
        Ok((answer, line.send(job)?))
    }

    /// Two clocks must not decide about one table.
    fn check(&self, at: TimeSource) -> Result<()> {
        if matches!(at, TimeSource::Given(_)) && !self.shared.config.accepts_readings {
            let message = "the database's clock decides; a reading cannot be given";
            return Err(Error::new(Code::Unsupported, message).not_sent());
        }
        Ok(())
    }

    /// The worker that the key belongs to.
    fn worker_of(&self, key: &str) -> usize {
        // Any hash will do: an attacker who fills one worker only makes its rounds fuller.
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        let workers = u64::try_from(self.workers.len()).unwrap_or(1).max(1);
        usize::try_from(hash % workers).unwrap_or_default()
    }
}

impl Store for Postgres {
    fn capability(&self) -> Capability {
        let mut capability = Capability::default();
        capability.exact = true;
        capability.durable = self.shared.config.durability != Durability::Unlogged;
        capability.own_clock = true;
        capability.multi_key = MultiKey::Atomic;
        capability.idempotent = true;
        capability
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        let (answer, waiting) = self.submit(admission, cx.time(), None)?;
        waiting.answer(pin!(heard(answer))).await
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        // Admissions of one key must meet in the same queue, in order. Single charges do by
        // themselves; where one has several keys, all go to the same worker.
        let is_plain = |admission: &Admission<'_>| admission.charges().len() <= 1;
        let worker = if batch.iter().all(is_plain) { None } else { Some(0) };
        let answers: Vec<_> =
            batch.iter().map(|admission| self.submit(admission, cx.time(), worker)).collect();
        for (index, answer) in answers.into_iter().enumerate() {
            let answer = match answer {
                Ok((answer, waiting)) => waiting.answer_in_batch(pin!(heard(answer))).await,
                Err(error) => Err(error),
            };
            results.set(index, answer);
        }
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        let at = cx.time();
        self.check(at)?;
        let texts = charges.iter().map(|charge| text_of(charge.key()));
        let texts: Vec<String> = texts.collect::<Result<_>>()?;
        let (reply, answer) = oneshot::channel();
        let waiting = self.looker.send(Ask::See(texts.clone(), reply))?;
        let seen = waiting.answer(pin!(heard(answer))).await?;
        let (clock, rows) = &*seen;
        let now = match at {
            TimeSource::StoreClock => Now::at(*clock),
            TimeSource::Given(reading) => Now::at(reading),
        };
        let states = texts.iter().map(|text| match rows.get(text).map(String::as_str) {
            None | Some("") => Ok(None),
            Some(text) => State::from_text(text).map(Some).map_err(|_| corrupt()),
        });
        Ok(Loaded::new(now, states.collect::<Result<_>>()?))
    }

    async fn reset(&self, key: Key<'_>, _: CallContext<'_>) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        let waiting = self.looker.send(Ask::Reset(text_of(key)?, reply))?;
        waiting.answer(pin!(heard(answer))).await
    }

    async fn close(&self) {
        self.closing.send_replace(true);
        let tasks =
            core::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            // A task that panicked has ended as well.
            let _ = task.await;
        }
    }

    fn round_trips(&self) -> Option<u64> {
        Some(self.shared.trips.load(Ordering::Relaxed))
    }
}

async fn heard<T>(answer: oneshot::Receiver<Result<T>>) -> Result<T> {
    answer.await.unwrap_or_else(|_| Err(lost()))
}

fn unqueued<T>(refused: &mpsc::error::TrySendError<T>) -> Error {
    match refused {
        mpsc::error::TrySendError::Full(_) => {
            Error::new(Code::QueueFull, "too many calls wait for PostgreSQL").not_sent()
        }
        mpsc::error::TrySendError::Closed(_) => closed(),
    }
}

/// The runtime was shut down, or a worker ended in the middle of a round.
fn lost() -> Error {
    Error::new(Code::StoreUnavailable, "the worker went away; the charge may be spent")
}
