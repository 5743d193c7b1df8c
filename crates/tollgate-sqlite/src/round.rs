//! One round: many admissions, one transaction, one write to the disk.
//!
//! The write lock is held from the start: values that were read do not change before they are
//! written. Values are read from the index of the logs, else from the tables, and appended to the
//! log of the epoch. Nothing is charged before the commit. The outcome of a failed commit is
//! unknown, and it is never repeated.

use rusqlite::Connection;
use tollgate_core::store::round::{Forget, IdShares, Round, RoundBounds, ValueName};
use tollgate_core::store::{Evidence, TimeSource};
use tollgate_core::{Charge, Clock, Error, Micros, OwnedAdmission, SystemClock};

use crate::compaction;
use crate::config::Config;
use crate::error::QueryError;
use crate::job::{Job, Task};
use crate::log_index::{LogIndex, LogProgress, SharedLogIndex, size};
use crate::sql::Sql;

/// How many more request ids than needed a round deletes if there is no room.
const RECLAIM_EXTRA: u64 = 1_000;

/// Why a round failed.
#[derive(Debug)]
pub(crate) enum RoundError {
    /// It failed before the commit. Nothing was charged.
    NotCommitted(QueryError),
    /// The commit failed. The outcome is unknown.
    OutcomeUnknown(Error),
}

impl<E: Into<QueryError>> From<E> for RoundError {
    fn from(error: E) -> Self {
        Self::NotCommitted(error.into())
    }
}

/// Begins a transaction with the write lock. Fails with `Busy` while another process holds it.
pub(crate) fn begin(connection: &Connection) -> Result<(), QueryError> {
    Ok(connection.execute_batch("BEGIN IMMEDIATE")?)
}

/// Rolls a transaction back, if one is open. Returns whether the connection can still be used.
pub(crate) fn roll_back(connection: &Connection) -> bool {
    connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok()
}

/// Commits the transaction.
pub(crate) fn commit(connection: &Connection) -> Result<(), RoundError> {
    match connection.execute_batch("COMMIT").map_err(QueryError::from) {
        Ok(()) => Ok(()),
        // The transaction is still open and will be rolled back.
        Err(QueryError::Busy) => Err(RoundError::NotCommitted(QueryError::Busy)),
        // Without room the mark of the commit is not written.
        Err(QueryError::Failed(error)) if error.is_not_sent() => {
            Err(RoundError::NotCommitted(QueryError::Failed(error)))
        }
        Err(QueryError::Failed(error)) => Err(RoundError::OutcomeUnknown(error)),
    }
}

/// An open transaction whose index is up to date.
#[derive(Debug)]
pub(crate) struct OpenRound {
    progress: LogProgress,
    has_compacted: bool,
}

/// The work of a round.
#[derive(Debug, Default)]
pub(crate) struct Work<'a> {
    admissions: Vec<(&'a OwnedAdmission, Micros)>,
    resets: Vec<&'a str>,
}

impl<'a> Work<'a> {
    pub(crate) fn of(jobs: impl Iterator<Item = &'a Job>) -> Self {
        let mut work = Self::default();
        for job in jobs {
            match &job.task {
                Task::Admit(admission, reading) => work.admissions.push((admission, *reading)),
                Task::Reset(key) => work.resets.push(key),
                Task::Sweep(..) => {}
            }
        }
        work
    }

    /// The newest reading of the admissions.
    pub(crate) fn latest(&self) -> Option<Micros> {
        self.admissions.iter().map(|(_, reading)| *reading).max()
    }
}

/// The result of a round.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) outcomes: Vec<tollgate_core::Result<Evidence>>,
    /// How much it appended to the log.
    pub(crate) bytes: usize,
    /// When all was decided, before the commit.
    pub(crate) decided_at: Micros,
    /// Request ids that were deleted before they expired.
    pub(crate) forgotten: u64,
}

/// The work that does not depend on the admissions: refreshes the index, and compacts in proportion
/// to what the last round appended.
pub(crate) fn open(
    sql: &mut Sql<'_>,
    index: &SharedLogIndex,
    appended: usize,
) -> Result<OpenRound, QueryError> {
    let mut index = index.lock();
    let mut progress = index.refresh(&mut sql.log)?;
    let has_compacted = compaction::keep_up(sql, &index, &mut progress, appended)?;
    Ok(OpenRound { progress, has_compacted })
}

/// Decides the admissions and resets the keys inside of an open transaction, and ends it.
pub(crate) fn run(
    connection: &Connection,
    (sql, index, opened): (&mut Sql<'_>, &SharedLogIndex, OpenRound),
    work: &Work<'_>,
    (config, shares): (&Config, &IdShares),
    clock: &SystemClock,
) -> Result<Written, RoundError> {
    let index = index.lock();
    let mut draft = Draft { sql, index: &index, opened, appended: 0, has_compacted_all: false };
    let charges = work.admissions.iter().map(|(admission, _)| admission.charges());
    let charges: Vec<Vec<Charge<'_>>> = charges.collect();
    let admissions = work.admissions.iter().zip(&charges);
    let round = Round::of(
        admissions
            .map(|((admission, reading), own)| (admission.of(own), TimeSource::Given(*reading))),
    );
    let values = round.names().map(|name| draft.read(name, &work.resets));
    let values: Vec<Option<String>> = values.collect::<Result<_, _>>()?;
    let existed: Vec<bool> = values.iter().map(Option::is_some).collect();
    let mut ids = RequestIds::read(config, &mut draft, work)?;
    let bounds = RoundBounds { slack: config.slack, room: ids.room() };
    let mut reserved = shares.reserve(ids.now);
    let decided = round.decide_with_shares(values, None, (bounds, &mut reserved))?;
    ids.forget(&mut draft, &decided.forget)?;
    // After the compaction that makes room for request ids, which empties the logs.
    for key in &work.resets {
        draft.append(key, (None, 0), false)?;
    }
    let names: Vec<ValueName<'_>> = round.names().collect();
    for write in &decided.writes {
        let Some(name) = names.get(write.place) else { continue };
        let is_counted = existed.get(write.place) == Some(&true) && draft.is_counted(*name)?;
        ids.added += u64::from(name.is_record && !is_counted);
        draft.append(name.text, (Some(&write.text), write.keep_until), name.is_record)?;
    }
    let ids_forgotten = ids.forgotten;
    ids.write(draft.sql)?;
    let (has_changed, bytes) = (draft.has_changed(), draft.appended);
    // The reader does not wait for the commit.
    drop(index);
    let decided_at = clock.now();
    let committed = if has_changed {
        commit(connection)
    } else {
        roll_back(connection);
        Ok(())
    };
    match committed {
        Ok(()) | Err(RoundError::OutcomeUnknown(_)) => reserved.keep(),
        Err(RoundError::NotCommitted(_)) => drop(reserved),
    }
    let outcomes = decided.outcomes;
    committed.map(|()| Written { outcomes, bytes, decided_at, forgotten: ids_forgotten })
}

/// What a round reads and writes.
struct Draft<'a, 'c> {
    sql: &'a mut Sql<'c>,
    index: &'a LogIndex,
    opened: OpenRound,
    /// How much it appended to the log.
    appended: usize,
    /// Whether all values of the index are in the tables now.
    has_compacted_all: bool,
}

impl Draft<'_, '_> {
    fn read(&mut self, name: ValueName<'_>, resets: &[&str]) -> Result<Option<String>, QueryError> {
        if resets.contains(&name.text) {
            return Ok(None);
        }
        match self.index.value(name.text) {
            Some(value) => Ok(value.text.clone()),
            None => self.sql.read(name.text, name.is_record),
        }
    }

    /// Whether an expired request id that is about to be replaced is still stored, and so was
    /// counted. One in the table is deleted: in both places it would be counted twice.
    fn is_counted(&mut self, name: ValueName<'_>) -> Result<bool, QueryError> {
        let is_logged = !self.has_compacted_all && self.index.value(name.text).is_some();
        Ok(name.is_record && (is_logged || self.sql.delete_record(name.text)?))
    }

    fn append(
        &mut self,
        name: &str,
        value: (Option<&str>, Micros),
        is_record: bool,
    ) -> Result<(), QueryError> {
        self.appended = self.appended.saturating_add(size(name.as_bytes(), value.0));
        self.sql.append(self.opened.progress.epoch, name, value, is_record)
    }

    fn compact_all(&mut self) -> Result<(), QueryError> {
        self.has_compacted_all = true;
        compaction::compact_all(self.sql, self.index, &mut self.opened.progress)
    }

    const fn has_changed(&self) -> bool {
        self.appended > 0 || self.opened.has_compacted || self.has_compacted_all
    }
}

/// The number of request ids during a round.
struct RequestIds {
    stored: u64,
    max: u64,
    reclaimed: u64,
    forgotten: u64,
    added: u64,
    now: Micros,
}

impl RequestIds {
    /// Reads the number if the round needs it, and deletes expired ones if there is no room.
    fn read(
        config: &Config,
        draft: &mut Draft<'_, '_>,
        work: &Work<'_>,
    ) -> Result<Self, QueryError> {
        let wanted = work.admissions.iter().filter(|(admission, _)| admission.has_id()).count();
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        let now = work.admissions.iter().map(|(_, reading)| *reading).min().unwrap_or_default();
        let max = config.max_request_ids;
        let mut ids = Self { stored: 0, max, reclaimed: 0, forgotten: 0, added: 0, now };
        if wanted > 0 {
            ids.stored = draft.sql.request_ids()?;
            if wanted > ids.max.saturating_sub(ids.stored) {
                draft.compact_all()?;
                ids.reclaimed =
                    draft.sql.reclaim_records(now, wanted.saturating_add(RECLAIM_EXTRA))?;
            }
        }
        Ok(ids)
    }

    /// Deletes request ids that have not expired, to make room for those of this round.
    fn forget(&mut self, draft: &mut Draft<'_, '_>, all: &[Forget]) -> Result<(), QueryError> {
        if !all.is_empty() && !draft.has_compacted_all {
            draft.compact_all()?;
        }
        for forget in all {
            let deleted = draft.sql.forget(forget)?;
            self.forgotten = self.forgotten.saturating_add(deleted);
            self.reclaimed = self.reclaimed.saturating_add(deleted);
        }
        Ok(())
    }

    fn left(&self) -> u64 {
        self.stored.saturating_sub(self.reclaimed)
    }

    fn room(&self) -> usize {
        usize::try_from(self.max.saturating_sub(self.left())).unwrap_or(usize::MAX)
    }

    /// Writes the number if it has changed. For each new id up to two expired ones are deleted, so
    /// that they do not accumulate.
    fn write(mut self, sql: &mut Sql<'_>) -> Result<(), QueryError> {
        if self.added > 0 {
            let deleted = sql.reclaim_records(self.now, self.added.saturating_mul(2))?;
            self.reclaimed = self.reclaimed.saturating_add(deleted);
        }
        if self.added > 0 || self.reclaimed > 0 {
            sql.set_request_ids(self.left().saturating_add(self.added))?;
        }
        Ok(())
    }
}
