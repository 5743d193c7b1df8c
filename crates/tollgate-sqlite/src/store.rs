//! The store: an admission is copied, queued for a thread, and its answer is awaited.
//!
//! A caller that is cancelled before its round begins is not charged, and affects no other caller.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;
use tollgate_core::combine::{Combiner, Limits, Pending, collect};
use tollgate_core::store::round::state_in;
use tollgate_core::store::{
    BatchResults, CallContext, Capability, Evidence, Loaded, MultiKey, Store, TimeSource,
};
use tollgate_core::{
    Admission, Charge, Clock, Code, Error, Key, Micros, Now, Result, State, SystemClock,
};

use crate::config::Config;
use crate::error::QueryError;
use crate::file::{self, DatabaseFile};
use crate::job::{Done, Job};
use crate::log_index::SharedLogIndex;
use crate::reader::{ReadJob, ReadReply, Reader};
use crate::sweep::SweepPosition;
use crate::writer::Writer;

/// The bound of waiting calls is above that of the limiter. The writer gets all of them, and
/// chooses those of a round itself.
const LIMITS: Limits = Limits { waiting: 20_000, round: 20_000, concurrent: 1 };

/// A store in a SQLite file.
///
/// ```
/// use tollgate_core::algorithm::TokenBucket;
/// use tollgate_core::{Limit, Limiter, Quota};
/// use tollgate_sqlite::{Config, Sqlite};
///
/// # fn main() -> tollgate_core::Result<()> {
/// # let folder = tollgate_test_servers::Folder::new("doc").unwrap();
/// # let path = folder.path().join("limits.db");
/// # tollgate_testkit::runtime::block_on(async {
/// let limiter = Limiter::new(Sqlite::connect(Config::new(path)).await?);
/// let uploads = Limit::new("uploads", TokenBucket::new(10, Quota::per_second(1))?)?;
/// let decision = limiter.check(uploads.charge("ada")).await?;
/// assert_eq!(decision.remaining, 9);
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Debug)]
pub struct Sqlite {
    clock: SystemClock,
    file: Arc<DatabaseFile>,
    writes: Arc<Combiner<Job, Result<Done>>>,
    reads: Arc<Combiner<ReadJob, ReadReply>>,
    /// Complete when the threads have ended.
    threads: Mutex<Vec<oneshot::Receiver<()>>>,
}

impl Sqlite {
    /// Opens a store without waiting, and starts its two threads. The file is opened at the first
    /// call, and its tables are created then if they are missing.
    ///
    /// # Errors
    /// `config_invalid` naming `path` if it cannot be the path of a file; `store_unavailable` when
    /// the operating system cannot start a thread.
    pub fn open(config: Config) -> Result<Self> {
        config.check_path()?;
        let clock = SystemClock::new();
        let file = Arc::new(DatabaseFile::new(config.clone(), clock.clone()));
        let index = SharedLogIndex::default();
        let (writes, reads) = (Combiner::new(1, LIMITS), Combiner::new(1, LIMITS));
        let reader = Reader {
            config: config.clone(),
            clock: clock.clone(),
            file: Arc::clone(&file),
            worker: reads.worker(0),
            index: index.clone(),
        };
        let writer = Writer::new(config, clock.clone(), Arc::clone(&file), writes.worker(0), index);
        let threads = vec![
            spawn("tollgate-writer", move || writer.run())?,
            spawn("tollgate-reader", move || reader.run())?,
        ];
        Ok(Self { clock, file, writes, reads, threads: Mutex::new(threads) })
    }

    /// Opens a store and its file, creates or checks the tables, and reads the logs. This waits for
    /// the disk, and up to ten seconds for other processes that create the tables.
    ///
    /// # Errors
    /// `config_invalid` naming `path` when the file cannot be opened or created, or its tables have
    /// a newer version; `corrupt_state` when it is not a database; `store_unavailable` when the
    /// disk or the operating system fails.
    pub async fn connect(config: Config) -> Result<Self> {
        let store = Self::open(config)?;
        store.reads.submit(0, Vec::new(), CallContext::at(0))?.answer().await?;
        Ok(store)
    }

    /// How many commits SQLite ignored when the file was opened, because its write-ahead log did
    /// not verify after a crash: what they had charged is lost. 0 until the file was opened.
    #[must_use]
    pub fn lost_commits(&self) -> u64 {
        self.file.lost_commits()
    }

    /// Creates the tables, or migrates them to the version that this code needs.
    ///
    /// # Errors
    /// As [`Sqlite::connect`].
    pub fn migrate(config: &Config) -> Result<()> {
        file::migrate(config, &SystemClock::new()).map_err(QueryError::into_error)
    }

    /// Deletes values that are expired at `now`, page by page between the rounds of callers.
    /// Returns how many were deleted. The background sweep does the same.
    ///
    /// # Errors
    /// `conflict_exhausted` when other processes write; any error of the file. Values deleted until
    /// then stay deleted.
    pub async fn sweep(&self, now: Micros) -> Result<u64> {
        let mut sum = 0_u64;
        let mut next = Some(SweepPosition::START);
        while let Some(position) = next {
            let job = Job::sweep(position, now, self.clock.now());
            let call = self.submit(job, CallContext::at(now))?;
            next = match call.answer().await? {
                Done::Swept(page) => {
                    sum = sum.saturating_add(page.deleted);
                    page.next
                }
                Done::Decided(_) | Done::Reset => None,
            };
        }
        Ok(sum)
    }

    fn submit<'c>(
        &'c self,
        job: Job,
        cx: CallContext<'c>,
    ) -> Result<Pending<'c, Job, Result<Done>>> {
        self.writes.submit(0, job, cx)
    }

    fn submit_admission<'c>(
        &'c self,
        admission: &Admission<'_>,
        cx: CallContext<'c>,
    ) -> Result<Pending<'c, Job, Result<Done>>> {
        let reading = reading_of(cx.time())?;
        self.submit(Job::admit(admission, reading, self.clock.now())?, cx)
    }

    /// Refuses further calls. Queued ones are still served, then the threads end.
    fn end(&self) {
        self.writes.close();
        self.reads.close();
    }
}

impl Store for Sqlite {
    fn capability(&self) -> Capability {
        let mut capability = Capability::default();
        capability.exact = true;
        capability.durable = true;
        capability.multi_key = MultiKey::Atomic;
        capability.idempotent = true;
        capability.bounded_ids = true;
        capability
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.submit_admission(admission, cx)?.answer().await?.into_evidence()
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        // All of them are in one queue, in order.
        let calls = batch.iter().enumerate();
        let calls = calls
            .map(|(index, admission)| self.submit_admission(admission, results.context(index, cx)));
        collect(calls, results, |answer| answer.and_then(Done::into_evidence)).await;
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        let now = Now::at(reading_of(cx.time())?);
        let keys = charges.iter().map(|charge| charge.key().to_text()).collect();
        let values = self.reads.submit(0, keys, cx)?.answer().await?;
        let state = |value: Option<String>| -> Result<Option<State>> {
            value.map_or(Ok(None), |text| state_in(&text))
        };
        Ok(Loaded::new(now, values.into_iter().map(state).collect::<Result<_>>()?))
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.submit(Job::reset(key, self.clock.now()), cx)?.answer().await.map(drop)
    }

    fn forgotten_request_ids(&self) -> u64 {
        self.file.forgotten_ids()
    }

    async fn close(&self) {
        self.end();
        let threads =
            core::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // An error means that it has panicked: it has ended, too.
            let _ = thread.await;
        }
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.end();
    }
}

/// The reading of the caller's clock: a file has no clock.
fn reading_of(time: TimeSource) -> Result<Micros> {
    match time {
        TimeSource::Given(reading) => Ok(reading),
        TimeSource::StoreClock => {
            let message = "this store has no clock of its own; pass a reading";
            Err(Error::new(Code::Unsupported, message).not_sent())
        }
    }
}

/// Starts a thread. The receiver completes when it has ended.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<oneshot::Receiver<()>> {
    let (sender, ended) = oneshot::channel();
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        run();
        // An error means that the store was dropped.
        let _ = sender.send(());
    });
    match thread {
        Ok(_) => Ok(ended),
        Err(error) => {
            let message = format!("the operating system cannot start a thread: {}", error.kind());
            Err(Error::new(Code::StoreUnavailable, message))
        }
    }
}
