//! The store as callers see it: what they ask is copied, queued for a thread, and awaited.
//!
//! A caller that goes away before its round has begun is not charged, and nobody waits for it.

use core::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rusqlite::Connection;
use tokio::sync::oneshot;
use tollgate_core::store::patience::Waiting;
use tollgate_core::store::round::state_in;
use tollgate_core::store::{
    BatchResults, CallContext, Capability, Evidence, Loaded, MultiKey, Store, TimeSource,
};
use tollgate_core::{
    Admission, Charge, Clock, Code, Error, Key, Micros, Now, Result, State, SystemClock,
};

use crate::config::Config;
use crate::fault::{Fault, lost};
use crate::file;
use crate::job::{Job, Task};
use crate::pause::patiently;
use crate::queue::{Queue, Taker};
use crate::reader::{Look, Reader};
use crate::recent::Shared;
use crate::sql::LogSql;
use crate::sweep::{Place, Schedule};
use crate::turn::Turn;
use crate::writer::{FIRST_OWED, Writer};

/// Limits in a file.
#[derive(Debug)]
pub struct Sqlite {
    writer: Arc<Queue<Task>>,
    reader: Arc<Queue<Look>>,
    /// Fire when the threads have ended.
    ended: Mutex<Vec<oneshot::Receiver<()>>>,
}

impl Sqlite {
    /// Opens the file, makes or checks the tables, and starts the two threads of the store. This waits
    /// for the disk, and up to ten seconds for other processes that do the same.
    ///
    /// # Errors
    /// `config_invalid` naming `path` when the file cannot be opened or made, or its tables are of a newer
    /// version; `corrupt_state` when it is no database; `store_unavailable` when the disk or the operating
    /// system fails.
    pub fn open(config: Config) -> Result<Self> {
        let clock = SystemClock::new();
        let connection = file::first(&config, &clock).map_err(Fault::into_error)?;
        let looking = file::to_read(&config).map_err(Fault::into_error)?;
        let turn = Turn::open(&config.turn_path()).map_err(Fault::into_error)?;
        let recent = Shared::default();
        let read = patiently(&clock, file::OPEN_TIMEOUT, || read_logs(&looking, &recent));
        read.map_err(Fault::into_error)?;
        let (writer, reader) = (Queue::new(), Queue::new());
        let reads = Reader {
            config: config.clone(),
            clock: clock.clone(),
            queue: Taker(Arc::clone(&reader)),
            recent: recent.clone(),
        };
        let writes = Writer {
            schedule: Schedule::new(&config, clock.now()),
            config,
            clock,
            queue: Taker(Arc::clone(&writer)),
            turn,
            latest: 0,
            recent,
            regulars: 0,
            owed: FIRST_OWED,
        };
        let ended = vec![
            spawn("tollgate-writer", move || writes.work(connection))?,
            spawn("tollgate-reader", move || reads.work(looking))?,
        ];
        Ok(Self { writer, reader, ended: Mutex::new(ended) })
    }

    /// Makes the tables, or changes them to what this version needs.
    ///
    /// # Errors
    /// As [`Sqlite::open`].
    pub fn migrate(config: &Config) -> Result<()> {
        file::migrate(config, &SystemClock::new()).map_err(Fault::into_error)
    }

    /// Removes what has expired at this instant, page by page between the rounds of others; how many
    /// values went. Sweeps in the background do the same.
    ///
    /// # Errors
    /// `conflict_exhausted` when other processes write, or when the file fails. What was removed until
    /// then is gone.
    pub async fn sweep(&self, now: Micros) -> Result<u64> {
        let mut gone = 0_u64;
        let mut next = Some(Place::Log(None));
        while let Some(place) = next {
            let (reply, answer) = oneshot::channel();
            let waiting = self.writer.push(Task::Sweep(place, now, reply))?;
            let page = waiting.answer(pin!(heard(answer))).await?;
            gone = gone.saturating_add(page.gone);
            next = page.next;
        }
        Ok(gone)
    }

    fn submit(
        &self,
        admission: &Admission<'_>,
        at: TimeSource,
    ) -> Result<(oneshot::Receiver<Result<Evidence>>, Waiting<'_>)> {
        reading_of(at)?;
        let (job, answer) = Job::new(admission, at)?;
        Ok((answer, self.writer.push(Task::Admit(job))?))
    }

    fn end(&self) {
        self.writer.close();
        self.reader.close();
    }
}

impl Store for Sqlite {
    fn capability(&self) -> Capability {
        let mut capability = Capability::default();
        capability.exact = true;
        capability.durable = true;
        capability.multi_key = MultiKey::Atomic;
        capability.idempotent = true;
        capability
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        let (answer, waiting) = self.submit(admission, cx.time())?;
        waiting.answer(pin!(heard(answer))).await
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        // All of them wait in one queue, in order.
        let answers: Vec<_> =
            batch.iter().map(|admission| self.submit(admission, cx.time())).collect();
        for (index, answer) in answers.into_iter().enumerate() {
            let answer = match answer {
                Ok((answer, waiting)) => waiting.answer_in_batch(pin!(heard(answer))).await,
                Err(error) => Err(error),
            };
            results.set(index, answer);
        }
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        let now = Now::at(reading_of(cx.time())?);
        let keys = charges.iter().map(|charge| charge.key().to_text()).collect();
        let (reply, answer) = oneshot::channel();
        let waiting = self.reader.push(Look { keys, reply })?;
        let values = waiting.answer(pin!(heard(answer))).await?;
        let state = |value: Option<String>| -> Result<Option<State>> {
            value.map_or(Ok(None), |text| state_in(&text))
        };
        Ok(Loaded::new(now, values.into_iter().map(state).collect::<Result<_>>()?))
    }

    async fn reset(&self, key: Key<'_>, _: CallContext<'_>) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        let waiting = self.writer.push(Task::Reset(key.to_text(), reply))?;
        waiting.answer(pin!(heard(answer))).await
    }

    async fn close(&self) {
        self.end();
        let ended =
            core::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in ended {
            // An error means that it has ended already.
            let _ = thread.await;
        }
    }
}

/// What is queued is still decided; the threads end after that.
impl Drop for Sqlite {
    fn drop(&mut self) {
        self.end();
    }
}

async fn heard<T>(answer: oneshot::Receiver<Result<T>>) -> Result<T> {
    answer.await.unwrap_or_else(|_| Err(lost()))
}

/// Reads what is in the logs, so that nobody waits for that later.
fn read_logs(connection: &Connection, recent: &Shared) -> Result<(), Fault> {
    let mut recent = recent.lock();
    let transaction = connection.unchecked_transaction()?;
    recent.refresh(&mut LogSql::prepare(&transaction)?).map(drop)
}

/// The caller's reading: a file has no clock.
fn reading_of(at: TimeSource) -> Result<Micros> {
    match at {
        TimeSource::Given(reading) => Ok(reading),
        TimeSource::StoreClock => {
            let message = "this store has no clock of its own; pass a reading";
            Err(Error::new(Code::Unsupported, message).not_sent())
        }
    }
}

/// Starts a thread; the receiver is told when it has ended.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<oneshot::Receiver<()>> {
    let (ends, ended) = oneshot::channel();
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        work();
        // Nobody is there to hear it if the store was dropped.
        let _ = ends.send(());
    });
    match thread {
        Ok(_) => Ok(ended),
        Err(error) => {
            let message = format!("the operating system starts no thread: {}", error.kind());
            Err(Error::new(Code::StoreUnavailable, message))
        }
    }
}
