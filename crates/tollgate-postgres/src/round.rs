//! One round: many admissions, one transaction, two round trips.
//!
//! First ([`open`]): begin, lock and read the rows, read the clock, read the request ids; then the
//! pure part (`draft`). Second ([`close`]): create, change, remember, audit, commit. The parts of each
//! are sent together, without waiting for one another: whatever fails makes the rest fail, and the
//! commit undoes it all. A worker sends the first trip of its next round right behind the second one
//! of this.
//!
//! Until the second trip is sent nothing is charged, and callers that have gone away are left out.
//! What was sent and not answered is never sent again.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::collections::HashMap;

use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};
use tollgate_core::store::patience::Progress;
use tollgate_core::store::{Evidence, TimeSource};
use tollgate_core::{Error, Micros, Result};

use crate::draft::{Bounds, Draft, Read, Rows, keys_of, stored};
use crate::fault::Fault;
use crate::job::Job;
use crate::link::{Link, Shared};
use crate::record::Record;

/// What a round trip needs.
#[derive(Clone, Copy)]
pub(crate) struct Trip<'a> {
    pub(crate) shared: &'a Shared,
    /// For those who wait behind it.
    pub(crate) progress: &'a Progress,
    pub(crate) link: &'a Link,
}

impl Trip<'_> {
    fn limit(&self) -> Duration {
        self.shared.config.operation_timeout
    }

    fn client(&self) -> &Client {
        &self.link.client
    }

    /// Whoever waits has heard from the server, unless it is lost.
    fn heard(&self, fault: Option<&Fault>) {
        if !matches!(fault, Some(Fault::Lost(_))) {
            self.progress.round_ended();
        }
    }
}

/// A round that holds its locks and knows what to write.
pub(crate) struct Round {
    /// Those who are answered once it is written.
    jobs: Vec<Job>,
    outcomes: Vec<Result<Evidence>>,
    draft: Draft,
}

impl Round {
    /// Gives up before anything was written: those who wait.
    pub(crate) fn into_jobs(self) -> Vec<Job> {
        self.jobs
    }
}

/// How the first trip ended.
pub(crate) enum Opened {
    /// The transaction is open.
    Ready(Box<Round>),
    /// Others were in the way; the transaction is to be undone.
    Conflict(Vec<Job>),
    /// The connection failed. Nothing was charged.
    Unserved(Vec<Job>, Error),
    /// The server refused, and everybody was told.
    Refused,
}

/// How the second trip ended.
pub(crate) enum Closed {
    /// Everybody was answered.
    Answered,
    /// Others were in the way; everything is undone.
    Conflict(Vec<Job>),
    /// Everybody was told, and the connection is not to be used any more.
    Broken,
}

/// The first trip.
pub(crate) async fn open(trip: Trip<'_>, jobs: Vec<Job>) -> Opened {
    let shared = trip.shared;
    let read = match bounded(trip.limit(), read(trip, &jobs)).await {
        Ok(read) => read,
        Err(fault) => return unopened(trip, jobs, fault),
    };
    // Whoever went away during the reading is not charged.
    let jobs: Vec<Job> = jobs.into_iter().filter(Job::is_waiting).collect();
    let room = match bounded(trip.limit(), room(trip, &jobs, read.clock)).await {
        Ok(room) => room,
        Err(fault) => return unopened(trip, jobs, fault),
    };
    let audits = shared.config.audit.is_some();
    let bounds = Bounds { slack: shared.config.slack, room, audits };
    let mut draft = Draft::make(&jobs, read, bounds);
    let outcomes = core::mem::take(&mut draft.outcomes);
    if !draft.is_idle() {
        return Opened::Ready(Box::new(Round { jobs, outcomes, draft }));
    }
    // Nothing will be written, so nobody has to wait for it.
    trip.progress.round_ended();
    answer(jobs, outcomes);
    Opened::Ready(Box::new(Round { jobs: Vec::new(), outcomes: Vec::new(), draft }))
}

/// The first trip failed, so nothing was charged.
fn unopened(trip: Trip<'_>, jobs: Vec<Job>, fault: Fault) -> Opened {
    trip.heard(Some(&fault));
    match fault {
        Fault::Conflict => Opened::Conflict(jobs),
        Fault::Lost(error) => Opened::Unserved(jobs, error.not_sent()),
        Fault::Refused(error) => {
            refuse(jobs, &error.not_sent());
            Opened::Refused
        }
    }
}

/// The second trip.
pub(crate) async fn close(trip: Trip<'_>, round: Round) -> Closed {
    let Round { jobs, outcomes, draft } = round;
    let written = if draft.is_idle() {
        bounded(trip.limit(), undo(trip.client())).await
    } else {
        bounded(trip.limit(), write(trip, &draft)).await
    };
    trip.heard(written.as_ref().err());
    match written {
        Ok(()) => {
            trip.shared.ids.added(count(draft.records.len()));
            answer(jobs, outcomes);
            Closed::Answered
        }
        Err(Fault::Conflict) => Closed::Conflict(jobs),
        Err(Fault::Refused(error)) => {
            refuse(jobs, &error.not_sent());
            Closed::Broken
        }
        Err(Fault::Lost(error)) => {
            refuse(jobs, &error);
            Closed::Broken
        }
    }
}

/// Ends a transaction that is open; whether the connection may be used on.
pub(crate) async fn abandon(shared: &Shared, link: &Link) -> bool {
    bounded(shared.config.operation_timeout, undo(&link.client)).await.is_ok()
}

/// Hands everybody the same error.
pub(crate) fn refuse(jobs: Vec<Job>, error: &Error) {
    for job in jobs {
        job.answer(Err(error.clone()));
    }
}

fn answer(jobs: Vec<Job>, outcomes: Vec<Result<Evidence>>) {
    for (job, outcome) in jobs.into_iter().zip(outcomes) {
        job.answer(outcome);
    }
}

async fn bounded<T>(
    limit: Duration,
    act: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    timeout(limit, act).await.unwrap_or_else(|_| Err(Fault::timeout()))
}

async fn undo(client: &Client) -> Result<(), Fault> {
    Ok(client.batch_execute("ROLLBACK").await?)
}

/// Locks and reads all that the jobs touch.
///
/// A server that has begun and does not go on is waiting for somebody else's locks.
async fn read(trip: Trip<'_>, jobs: &[Job]) -> Result<Read, Fault> {
    let (sql, client) = (&trip.shared.sql, trip.client());
    let keys = keys_of(jobs);
    let locking: [(&(dyn ToSql + Sync), Type); 1] = [(&keys, Type::TEXT_ARRAY)];
    let (unblocked, is_locked) = (Unblocked(trip.progress), AtomicBool::new(false));
    let begin = async {
        client.batch_execute(&sql.begin).await.map_err(Fault::at_begin)?;
        // Both answers may have come before this looked.
        trip.progress.set_blocked(!is_locked.load(Relaxed));
        Ok::<(), Fault>(())
    };
    let lock = async {
        let locked = client.query_typed_one(&sql.lock, &locking).await;
        is_locked.store(true, Relaxed);
        drop(unblocked);
        locked
    };
    let (begun, locked, records) =
        tokio::join!(biased; begin, lock, recall(trip.shared, client, jobs));
    begun?;
    let (clock, rows) = states_of(&locked?)?;
    Ok(Read { clock, rows, records: records? })
}

/// Nobody waits for locks any more when this ends, however it ends.
struct Unblocked<'a>(&'a Progress);

impl Drop for Unblocked<'_> {
    fn drop(&mut self) {
        self.0.set_blocked(false);
    }
}

/// The clock and the states by key, from a row of two lists.
pub(crate) fn states_of(row: &Row) -> Result<(Micros, HashMap<String, String>), Fault> {
    let keys: Option<Vec<String>> = row.try_get(0)?;
    let states: Option<Vec<String>> = row.try_get(1)?;
    let clock: i64 = row.try_get(2)?;
    let rows = keys.unwrap_or_default().into_iter().zip(states.unwrap_or_default()).collect();
    Ok((u64::try_from(clock).unwrap_or_default(), rows))
}

type Records = HashMap<(String, String), Option<Record>>;

async fn recall(shared: &Shared, client: &Client, jobs: &[Job]) -> Result<Records, Fault> {
    let marked = jobs.iter().filter_map(|job| Some((job.home(), job.mark.as_ref()?.id.as_str())));
    let (homes, ids): (Vec<&str>, Vec<&str>) = marked.unzip();
    if ids.is_empty() {
        return Ok(Records::new());
    }
    let named: [(&(dyn ToSql + Sync), Type); 2] =
        [(&homes, Type::TEXT_ARRAY), (&ids, Type::TEXT_ARRAY)];
    client.query_typed(&shared.sql.recall, &named).await?.iter().map(record_of).collect()
}

fn record_of(row: &Row) -> Result<((String, String), Option<Record>), Fault> {
    let time = |column: usize| -> Result<Micros, Fault> {
        Ok(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or_default())
    };
    let evidence: &str = row.try_get(5)?;
    let record = Record::read(row.try_get(2)?, (time(3)?, time(4)?), evidence);
    Ok(((row.try_get(0)?, row.try_get(1)?), record))
}

/// How many request ids may be added; asks the database when the bound seems to be reached.
async fn room(trip: Trip<'_>, jobs: &[Job], clock: Micros) -> Result<u64, Fault> {
    let shared = trip.shared;
    let marked = jobs.iter().filter(|job| job.mark.is_some());
    let wanted = count(marked.clone().count());
    let given = marked.filter_map(|job| match job.at {
        TimeSource::Given(reading) => Some(reading),
        TimeSource::StoreClock => None,
    });
    let now = given.max().unwrap_or(clock);
    if wanted > 0 && shared.ids.needs_count(wanted, now) {
        let (at, max) = (stored(now), stored(shared.ids.max()));
        let counting: [(&(dyn ToSql + Sync), Type); 2] = [(&at, Type::INT8), (&max, Type::INT8)];
        let row = trip.client().query_typed_one(&shared.sql.count, &counting).await?;
        let live: i64 = row.try_get(0)?;
        shared.ids.counted(u64::try_from(live).unwrap_or_default(), now);
    }
    Ok(shared.ids.room())
}

/// Writes all that was drafted, and commits.
async fn write(trip: Trip<'_>, draft: &Draft) -> Result<(), Fault> {
    let (sql, client) = (&trip.shared.sql, trip.client());
    let (created, changed, remembered, audited, committed) = tokio::join!(
        biased;
        put(client, &sql.create, &draft.creates),
        put(client, &sql.change, &draft.changes),
        remember(client, &sql.remember, draft),
        draft.entries.write(client, &sql.audit),
        client.batch_execute("COMMIT"),
    );
    created?;
    changed?;
    remembered?;
    audited?;
    Ok(committed?)
}

async fn put(client: &Client, statement: &str, rows: &Rows) -> Result<(), Fault> {
    if rows.keys.is_empty() {
        return Ok(());
    }
    let columns: [(&(dyn ToSql + Sync), Type); 3] = [
        (&rows.keys, Type::TEXT_ARRAY),
        (&rows.states, Type::TEXT_ARRAY),
        (&rows.expires, Type::INT8_ARRAY),
    ];
    client.execute_typed(statement, &columns).await?;
    Ok(())
}

async fn remember(client: &Client, statement: &str, draft: &Draft) -> Result<(), Fault> {
    if draft.records.is_empty() {
        return Ok(());
    }
    let of = |text: fn(&((String, String), Record)) -> String| -> Vec<String> {
        draft.records.iter().map(text).collect()
    };
    let keys = of(|((key, _), _)| key.clone());
    let ids = of(|((_, id), _)| id.clone());
    let payloads = of(|(_, record)| record.payload.clone());
    let evidence = of(|(_, record)| record.evidence());
    let expires: Vec<i64> = draft.records.iter().map(|(_, one)| stored(one.expires)).collect();
    let decided: Vec<i64> = draft.records.iter().map(|(_, one)| stored(one.decided)).collect();
    let columns: [(&(dyn ToSql + Sync), Type); 6] = [
        (&keys, Type::TEXT_ARRAY),
        (&ids, Type::TEXT_ARRAY),
        (&payloads, Type::TEXT_ARRAY),
        (&expires, Type::INT8_ARRAY),
        (&decided, Type::INT8_ARRAY),
        (&evidence, Type::TEXT_ARRAY),
    ];
    client.execute_typed(statement, &columns).await?;
    Ok(())
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
