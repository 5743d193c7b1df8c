//! The store: an admission is copied, queued for a worker task, and its answer is awaited.
//!
//! A caller that is cancelled before its round is written is not charged. Cancelling it affects no
//! other caller, because workers are separate tasks.

use core::hash::{BuildHasher, BuildHasherDefault};
use core::sync::atomic::Ordering;
use std::collections::hash_map::DefaultHasher;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollgate_core::combine::{Combiner, Limits, Pending, collect};
use tollgate_core::store::round::state_in;
use tollgate_core::store::{
    BatchResults, CallContext, Capability, Evidence, LastAnswer, Loaded, MultiKey, Store,
    TimeSource,
};
use tollgate_core::{Admission, Charge, Code, Error, Key, Now, Result};

use crate::config::{Config, Durability};
use crate::connection::Shared;
use crate::forget;
use crate::job::{Job, text_of};
use crate::reads::{self, ReadJob, ReadReply};
use crate::sweep;
use crate::worker;

/// The bound of waiting calls is above that of the limiter. The bound of a round limits how long
/// its locks are held.
/// Workers get all callers that wait, and choose those of a round themselves.
const LIMITS: Limits = Limits { waiting: 20_000, round: 20_000, concurrent: 1 };

/// A store in a PostgreSQL database.
///
/// ```no_run
/// use tollgate_core::algorithm::TokenBucket;
/// use tollgate_core::{Limit, Limiter, Quota};
/// use tollgate_postgres::{Config, Postgres};
///
/// # async fn run() -> tollgate_core::Result<()> {
/// let config: Config = "postgres://app:secret@db.example.com/app?sslmode=verify-full".parse()?;
/// let limiter = Limiter::new(Postgres::connect(config).await?);
/// let uploads = Limit::new("uploads", TokenBucket::new(10, Quota::per_second(1))?)?;
/// let decision = limiter.check(uploads.charge("ada")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Postgres {
    shared: Arc<Shared>,
    /// One queue per worker.
    admissions: Arc<Combiner<Job, Result<Evidence>>>,
    reads: Arc<Combiner<ReadJob, ReadReply>>,
    /// Ends the sweep when it is set or dropped.
    closing: watch::Sender<bool>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Postgres {
    /// Opens a store on the current tokio runtime without waiting. It connects at the first call,
    /// and creates its tables then if they are missing.
    ///
    /// # Errors
    /// `config_invalid` naming the setting that is not accepted, or `runtime` outside of a runtime.
    pub fn open(config: Config) -> Result<Self> {
        let shared = Shared::new(config)?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
            Error::config("runtime", "is missing; open the store inside of a tokio runtime")
        })?;
        let admissions = Combiner::new(shared.config.connections, LIMITS);
        let reads = Combiner::new(1, LIMITS);
        let mut tasks = vec![runtime.spawn(reads::run(Arc::clone(&shared), reads.worker(0)))];
        for queue in 0..shared.config.connections {
            let worker = worker::run(Arc::clone(&shared), admissions.worker(queue));
            tasks.push(runtime.spawn(worker));
        }
        let (closing, closing_seen) = watch::channel(false);
        tasks.push(runtime.spawn(forget::run(Arc::clone(&shared), closing_seen.clone())));
        if let Some(interval) = shared.config.sweep_every {
            tasks.push(runtime.spawn(sweep::run(Arc::clone(&shared), interval, closing_seen)));
        }
        Ok(Self { shared, admissions, reads, closing, tasks: Mutex::new(tasks) })
    }

    /// Opens a store, connects, and creates or checks the tables.
    ///
    /// # Errors
    /// As [`Postgres::open`]; when the server cannot be reached or rejects the connection; when the
    /// tables have a newer version.
    pub async fn connect(config: Config) -> Result<Self> {
        let store = Self::open(config)?;
        drop(store.shared.connect().await?);
        Ok(store)
    }

    /// Creates the tables, or migrates them to the version that this code needs.
    ///
    /// # Errors
    /// When the server cannot be reached or rejects a statement; when the tables have a newer
    /// version.
    pub async fn migrate(config: Config) -> Result<()> {
        Shared::new(config)?.migrate().await
    }

    /// Deletes expired rows now, at the pace of the background sweep. Returns how many were
    /// deleted.
    ///
    /// # Errors
    /// When the server cannot be reached or rejects a statement. Rows deleted until then stay
    /// deleted.
    pub async fn sweep(&self) -> Result<u64> {
        sweep::sweep(&self.shared).await
    }

    /// Queues an admission for the worker of its first key, or for a given one.
    fn submit<'c>(
        &'c self,
        admission: &Admission<'_>,
        queue: Option<usize>,
        cx: CallContext<'c>,
    ) -> Result<Pending<'c, Job, Result<Evidence>>> {
        self.check(cx.time())?;
        let job = Job::new(admission, cx)?;
        let queue = queue.unwrap_or_else(|| self.queue_of(job.first_key()));
        self.admissions.submit(queue, job, cx)
    }

    /// Refuses a second clock for the same tables.
    fn check(&self, time: TimeSource) -> Result<()> {
        if matches!(time, TimeSource::Given(_)) && !self.shared.config.accepts_readings {
            let message = "this store decides by the database's clock; a reading is not accepted";
            return Err(Error::new(Code::Unsupported, message).not_sent());
        }
        Ok(())
    }

    /// The queue of the worker that the key belongs to.
    fn queue_of(&self, key: &str) -> usize {
        // The hash needs no secret: an attacker who sends all requests to one worker only makes the
        // rounds of that worker larger.
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        let queues = u64::try_from(self.shared.config.connections).unwrap_or(1).max(1);
        usize::try_from(hash % queues).unwrap_or_default()
    }

    /// Refuses further calls. Queued ones are still served.
    fn end(&self) {
        self.admissions.close();
        self.reads.close();
        self.closing.send_replace(true);
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
        capability.bounded_ids = true;
        capability
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.submit(admission, None, cx)?.answer().await
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        // Admissions that share a key have to be in one queue, in order. Single charges are queued
        // by their key. If an admission has several keys, the whole batch goes to one worker.
        let is_single = |admission: &Admission<'_>| admission.charges().len() <= 1;
        let queue = if batch.iter().all(is_single) { None } else { Some(0) };
        let calls = batch
            .iter()
            .enumerate()
            .map(|(index, admission)| self.submit(admission, queue, results.context(index, cx)));
        collect(calls, results, |answer| answer).await;
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.check(cx.time())?;
        let keys = charges.iter().map(|charge| text_of(charge.key()));
        let keys: Vec<String> = keys.collect::<Result<_>>()?;
        let read = self.reads.submit(0, ReadJob::Read(keys.clone()), cx)?.answer().await?;
        let now = match cx.time() {
            TimeSource::StoreClock => Now::at(read.clock),
            TimeSource::Given(reading) => Now::at(reading),
        };
        let states = keys.iter().map(|key| match read.values.get(key) {
            None => Ok(None),
            Some(text) => state_in(text),
        });
        Ok(Loaded::new(now, states.collect::<Result<_>>()?))
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.reads.submit(0, ReadJob::Reset(text_of(key)?), cx)?.answer().await.map(drop)
    }

    async fn close(&self) {
        self.end();
        let tasks =
            core::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            // An error means that the task panicked: it has ended, too.
            let _ = task.await;
        }
    }

    fn last_answer(&self, _: Key<'_>) -> Option<LastAnswer> {
        self.shared.last_answer()
    }

    fn forgotten_request_ids(&self) -> u64 {
        self.shared.forgetting.forgotten()
    }

    fn round_trips(&self) -> Option<u64> {
        Some(self.shared.round_trips.load(Ordering::Relaxed))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.end();
    }
}
