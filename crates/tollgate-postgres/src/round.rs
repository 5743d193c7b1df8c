//! One round: many admissions, one transaction, two round trips.
//!
//! The first round trip ([`open`]) begins the transaction, locks and reads the rows, and reads the
//! clock. Then the core decides (`store::round`), and the second round trip ([`close`]) inserts,
//! updates, writes the audit and commits. The statements of a round trip are sent together: if one
//! fails the following ones fail too, and the commit rolls everything back. A worker sends the
//! first round trip of its next round right behind the second one of this round.
//!
//! Nothing is charged before the second round trip is sent, and callers that were cancelled by then
//! are left out. A second round trip without an answer is never repeated.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::collections::HashSet;

use tokio::time::Instant;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};
use tollgate_core::store::round::{Decided, Forget, ReservedIds, Round, RoundBounds, ValueName};
use tollgate_core::store::{Evidence, TimeSource};
use tollgate_core::{Charge, Error, Micros, Result, combine};

use crate::audit::AuditRows;
use crate::connection::{Connection, Shared, bounded};
use crate::error::QueryError;
use crate::job::Job;
use crate::rows::{ReadRows, RowWrites, without_nul};
use crate::sql::int8;

/// The admissions of a round.
pub(crate) type Callers = combine::Round<Job, Result<Evidence>>;

/// The shortest time that a transaction waits for the lock of another one.
const LOCK_TIMEOUT_MIN: Duration = Duration::from_millis(5);

/// The shortest time for which one caller makes others wait for its rows.
const LOCK_SLICE_MIN: Duration = Duration::from_millis(20);

/// What a round trip needs.
#[derive(Clone, Copy)]
pub(crate) struct Trip<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) connection: &'a Connection,
}

impl Trip<'_> {
    fn limit(&self) -> Duration {
        self.shared.config.operation_timeout
    }

    /// Counts a round trip.
    pub(crate) fn count(&self) {
        self.shared.round_trips.fetch_add(1, Ordering::Relaxed);
    }

    fn client(&self) -> &Client {
        &self.connection.client
    }
}

/// A round that holds its locks.
pub(crate) struct OpenRound {
    callers: Callers,
    read: ReadRows,
    /// How many request ids may be added, and at which instant.
    room: (usize, Micros),
    /// When its first round trip began, if it waited for no lock.
    begun: Option<Instant>,
}

impl OpenRound {
    /// The callers of a round that is not written.
    pub(crate) fn into_callers(self) -> Callers {
        self.callers
    }
}

/// The result of the first round trip.
pub(crate) enum Opened {
    /// The transaction is open. The other callers need rows that others have locked: they are not
    /// part of it.
    Ready(OpenRound, Callers),
    /// Another transaction was in the way. This one has to be rolled back.
    Conflict(Callers),
    /// The connection failed. Nothing was charged.
    Failed(Callers, Error),
    /// The server rejected a statement, and every caller has its answer.
    Rejected,
}

/// The result of the second round trip.
pub(crate) enum Closed {
    /// Every caller has its answer.
    Answered,
    /// Another transaction was in the way. This one was rolled back.
    Conflict(Callers),
    /// Every caller has its answer. The connection cannot be used any more.
    Broken,
}

/// The rows of one caller, which a round waits for.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    keys: Vec<String>,
    record: Option<String>,
}

impl Awaited {
    pub(crate) fn of(job: &Job) -> Self {
        Self { keys: job.keys.clone(), record: job.record.clone() }
    }

    pub(crate) fn into_keys(self) -> HashSet<String> {
        self.keys.into_iter().collect()
    }
}

/// The first round trip. Waits for the locks of these rows, and of no others.
pub(crate) async fn open(trip: Trip<'_>, mut callers: Callers, awaited: &Awaited) -> Opened {
    let begun = awaited.keys.is_empty().then(Instant::now);
    let opened = bounded(trip.limit(), async {
        let read = read(trip, &callers, awaited).await?;
        let room = room(trip, &callers, read.clock).await?;
        Ok((read, room))
    });
    match opened.await {
        Ok((mut read, room)) => {
            let locked = split_locked(&mut callers, core::mem::take(&mut read.locked));
            locked.mark_contended();
            Opened::Ready(OpenRound { callers, read, room, begun }, locked)
        }
        Err(QueryError::Conflict) => Opened::Conflict(callers),
        Err(QueryError::ConnectionLost(error)) => Opened::Failed(callers, error.not_sent()),
        Err(QueryError::Rejected(error)) => {
            callers.fail(&error.not_sent());
            Opened::Rejected
        }
    }
}

/// The callers that need one of these rows, or share a key with such a caller before them: callers
/// of one key are decided in order. A request id that is locked holds up no other caller of its
/// key.
pub(crate) fn split_locked(callers: &mut Callers, mut locked: HashSet<String>) -> Callers {
    callers.split(|job| {
        let is_locked = job.keys.iter().any(|key| locked.contains(key));
        if is_locked {
            locked.extend(job.keys.iter().cloned());
        }
        is_locked || job.record.as_ref().is_some_and(|record| locked.contains(record))
    })
}

/// The second round trip.
pub(crate) async fn close(trip: Trip<'_>, round: OpenRound) -> Closed {
    let OpenRound { mut callers, read, room, begun } = round;
    // Callers that others have delayed for too long are refused: written, they would be charged and
    // not answered.
    let began = Instant::now();
    let end = began + Duration::from_micros(callers.needed_duration());
    callers.refuse_contended(|job| job.deadline.is_some_and(|deadline| deadline < end));
    // Callers that were cancelled while the round waited for its locks are not charged.
    callers.mark_sent();
    let draft = match Draft::of(trip.shared, &callers, read, room) {
        Ok(draft) => draft,
        Err(error) => {
            callers.fail(&error.not_sent());
            return Closed::Broken;
        }
    };
    if draft.is_empty() {
        // Nothing has to be written before the callers are answered.
        answer(trip, callers, (draft.outcomes, begun));
        return match bounded(trip.limit(), roll_back(trip.client())).await {
            Ok(()) => Closed::Answered,
            Err(_) => Closed::Broken,
        };
    }
    match bounded(trip.limit(), draft.write(trip)).await {
        Ok(()) => {
            trip.shared.request_ids.add(draft.writes.request_ids());
            let forgotten = trip.shared.forgetting.add(&draft.forget);
            trip.shared.request_ids.subtract(forgotten);
            draft.reserved.keep();
            callers.record_duration(micros(began.elapsed()));
            answer(trip, callers, (draft.outcomes, begun));
            Closed::Answered
        }
        Err(QueryError::Conflict) => Closed::Conflict(callers),
        Err(QueryError::Rejected(error)) => {
            callers.fail(&error.not_sent());
            Closed::Broken
        }
        Err(QueryError::ConnectionLost(error)) => {
            // They may be written.
            draft.reserved.keep();
            callers.fail(&error);
            Closed::Broken
        }
    }
}

/// Answers all callers of a round, and measures it if it waited for no lock. A server that is very
/// slow leaves no callers before the second round trip: then the first one is measured.
fn answer(
    trip: Trip<'_>,
    mut callers: Callers,
    (outcomes, begun): (Vec<Result<Evidence>>, Option<Instant>),
) {
    let Some(begun) = begun else { return callers.finish(outcomes) };
    trip.shared.note_answer(begun);
    callers.finish_measured(outcomes, micros(begun.elapsed()));
}

fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Rolls an open transaction back. Returns whether the connection can still be used.
pub(crate) async fn abandon(trip: Trip<'_>) -> bool {
    bounded(trip.limit(), roll_back(trip.client())).await.is_ok()
}

async fn roll_back(client: &Client) -> Result<(), QueryError> {
    Ok(client.batch_execute("ROLLBACK").await?)
}

/// What a round decided, and the rows that it writes.
struct Draft<'s> {
    outcomes: Vec<Result<Evidence>>,
    writes: RowWrites,
    audit: AuditRows,
    reserved: ReservedIds<'s>,
    forget: Vec<Forget>,
}

impl<'s> Draft<'s> {
    fn of(
        shared: &'s Shared,
        callers: &Callers,
        mut read: ReadRows,
        (room, now): (usize, Micros),
    ) -> Result<Self> {
        let charges: Vec<Vec<Charge<'_>>> =
            callers.jobs().map(|job| job.admission.charges()).collect();
        let admissions = || callers.jobs().zip(&charges);
        let round = Round::of(admissions().map(|(job, own)| (job.admission.of(own), job.time)));
        let names: Vec<ValueName<'_>> = round.names().collect();
        let values = names.iter().map(|name| read.values.remove(&*without_nul(name.text)));
        let values: Vec<Option<String>> = values.collect();
        let exists: Vec<bool> = values.iter().map(Option::is_some).collect();
        let bounds = RoundBounds { slack: shared.config.slack, room };
        let mut reserved = shared.id_shares.reserve(now);
        let mut decided =
            round.decide_with_shares(values, Some(read.clock), (bounds, &mut reserved))?;
        let mut writes = RowWrites::default();
        for write in core::mem::take(&mut decided.writes) {
            if let (Some(name), Some(exists)) = (names.get(write.place), exists.get(write.place)) {
                writes.add(*name, *exists, write);
            }
        }
        let mut audit = AuditRows::default();
        if shared.config.audit.is_some() {
            for ((job, charges), outcome) in admissions().zip(&decided.outcomes) {
                if let Ok(evidence) = outcome {
                    audit.add(&job.admission.of(charges), evidence)?;
                }
            }
        }
        let Decided { outcomes, forget, .. } = decided;
        Ok(Self { outcomes, writes, audit, reserved, forget })
    }

    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.audit.is_empty()
    }

    /// Writes all rows and commits.
    async fn write(&self, trip: Trip<'_>) -> Result<(), QueryError> {
        let (sql, client) = (&trip.shared.sql, trip.client());
        let (written, audited, committed) = tokio::join!(
            biased;
            self.writes.write(client, sql),
            self.audit.insert(client, &sql.audit),
            client.batch_execute("COMMIT"),
        );
        written?;
        audited?;
        Ok(committed?)
    }
}

/// Locks and reads all rows of a round, waiting for these rows only.
async fn read(
    trip: Trip<'_>,
    callers: &Callers,
    awaited: &Awaited,
) -> Result<ReadRows, QueryError> {
    let (sql, client) = (&trip.shared.sql, trip.client());
    let mut states: HashSet<&str> =
        callers.jobs().flat_map(|job| &job.keys).map(String::as_str).collect();
    let mut records: HashSet<&str> =
        callers.jobs().filter_map(|job| job.record.as_deref()).collect();
    let own_states: Vec<&str> = awaited.keys.iter().map(String::as_str).collect();
    let own_record: Vec<&str> = awaited.record.iter().map(String::as_str).collect();
    states.retain(|key| !own_states.contains(key));
    records.retain(|record| !own_record.contains(record));
    let (states, records): (Vec<&str>, Vec<&str>) =
        (states.into_iter().collect(), records.into_iter().collect());
    let timeout = lock_timeout(trip, callers);
    let begin =
        sql.begin(if own_states.is_empty() { timeout } else { timeout.min(lock_slice(callers)) });
    let begin = async { client.batch_execute(&begin).await.map_err(QueryError::at_begin) };
    let (begun, own_states, own_record, states, records) = tokio::join!(
        biased;
        begin,
        lock(client, &sql.states.lock, &own_states),
        lock(client, &sql.records.lock, &own_record),
        lock(client, &sql.states.lock_free, &states),
        lock(client, &sql.records.lock_free, &records),
    );
    begun?;
    let mut read = own_states?;
    read.add(own_record?);
    read.add(states?);
    read.add(records?);
    Ok(read)
}

/// How long one caller may make others wait for its rows: long enough for another process to finish
/// a round.
pub(crate) fn lock_slice(callers: &Callers) -> Duration {
    Duration::from_micros(callers.needed_duration().saturating_mul(2)).max(LOCK_SLICE_MIN)
}

/// How long the server waits for a lock before it reports a conflict: half of the time that the
/// most urgent caller has left, so that the conflict is reported before its deadline expires.
pub(crate) fn lock_timeout(trip: Trip<'_>, callers: &Callers) -> Duration {
    let longest = trip.limit() / 2;
    let Some(first) = callers.jobs().filter_map(|job| job.deadline).min() else { return longest };
    let left = first.saturating_duration_since(Instant::now());
    (left / 2).max(LOCK_TIMEOUT_MIN).min(longest)
}

async fn lock(client: &Client, statement: &str, keys: &[&str]) -> Result<ReadRows, QueryError> {
    if keys.is_empty() {
        return Ok(ReadRows::default());
    }
    let parameters: [(&(dyn ToSql + Sync), Type); 1] = [(&keys, Type::TEXT_ARRAY)];
    ReadRows::of(&client.query_typed_one(statement, &parameters).await?)
}

/// How many request ids may be added, and at which instant. Counts them if the bound seems to be
/// reached.
async fn room(
    trip: Trip<'_>,
    callers: &Callers,
    clock: Micros,
) -> Result<(usize, Micros), QueryError> {
    let ids = &trip.shared.request_ids;
    let with_id = callers.jobs().filter(|job| job.record.is_some());
    let wanted = with_id.clone().count();
    let given = with_id.filter_map(|job| match job.time {
        TimeSource::Given(reading) => Some(reading),
        TimeSource::StoreClock => None,
    });
    let now = given.max().unwrap_or(clock);
    if wanted > 0 && ids.needs_count(wanted, now) {
        let (at, max) = (int8(now), int8(ids.max()));
        let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&at, Type::INT8), (&max, Type::INT8)];
        let count = &trip.shared.sql.count_records;
        let count: i64 = trip.client().query_typed_one(count, &parameters).await?.try_get(0)?;
        ids.set(u64::try_from(count).unwrap_or_default(), now);
    }
    Ok((ids.room(), now))
}
