//! One round: many admissions, one transaction, one wait for the disk.
//!
//! The file is held from the start, so that what was read stays as it is until it is written. Until the
//! commit nothing is charged; a commit that failed may have happened or not, and is never tried again.

use rusqlite::Connection;
use tollgate_core::store::At;
use tollgate_core::store::round::{Decided, Round, RoundBounds, ValueName};
use tollgate_core::{Charge, Error, Micros};

use crate::config::Config;
use crate::fault::Fault;
use crate::job::Job;
use crate::sql::Sql;

/// Request ids that one round reclaims at least, if it needs room.
const RECLAIM: u64 = 1_000;

/// Why a round was not written.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// It failed before the commit: nothing was charged.
    Undone(Fault),
    /// The commit failed: nobody knows.
    Unknown(Error),
}

impl<F: Into<Fault>> From<F> for Unwritten {
    fn from(fault: F) -> Self {
        Self::Undone(fault.into())
    }
}

/// Starts a transaction that holds the file; busy while somebody else does.
pub(crate) fn begin(connection: &Connection) -> Result<(), Fault> {
    Ok(connection.execute_batch("BEGIN IMMEDIATE")?)
}

/// Ends a transaction without a trace. Whether that worked.
pub(crate) fn undo(connection: &Connection) -> bool {
    connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok()
}

/// Writes for good.
pub(crate) fn commit(connection: &Connection) -> Result<(), Unwritten> {
    match connection.execute_batch("COMMIT").map_err(Fault::from) {
        Ok(()) => Ok(()),
        // The transaction is still open, and will be undone.
        Err(Fault::Busy) => Err(Unwritten::Undone(Fault::Busy)),
        Err(Fault::Failed(error)) => Err(Unwritten::Unknown(error)),
    }
}

/// Decides the jobs and forgets the keys inside of a transaction that has begun, and ends it.
pub(crate) fn run(
    config: &Config,
    connection: &Connection,
    sql: &mut Sql<'_>,
    (jobs, resets): (&[Job], &[&str]),
) -> Result<Decided, Unwritten> {
    for key in resets {
        sql.delete(key.as_bytes())?;
    }
    let charges: Vec<Vec<Charge<'_>>> = jobs.iter().map(|job| job.admission.charges()).collect();
    let admissions = jobs.iter().zip(&charges).map(|(job, own)| (job.admission.of(own), job.at));
    let round = Round::of(admissions);
    let values = round.names().map(|name| sql.read(name)).collect::<Result<Vec<_>, _>>()?;
    let is_new: Vec<bool> = values.iter().map(Option::is_none).collect();
    let mut ids = Ids::look(config, sql, jobs)?;
    let bounds = RoundBounds { slack: config.slack, room: ids.room() };
    let decided = round.decide(values, None, bounds)?;
    let names: Vec<ValueName<'_>> = round.names().collect();
    for write in &decided.writes {
        let Some(name) = names.get(write.place) else { continue };
        sql.write(*name, &write.text, write.keep_until)?;
        if name.is_record && is_new.get(write.place) == Some(&true) {
            ids.added += 1;
        }
    }
    let has_written = ids.keep(sql)? || !decided.writes.is_empty() || !resets.is_empty();
    if has_written {
        commit(connection)?;
    } else {
        undo(connection);
    }
    Ok(decided)
}

/// The number of request ids, while a round changes it.
struct Ids {
    known: u64,
    max: u64,
    reclaimed: u64,
    added: u64,
    now: Micros,
}

impl Ids {
    /// How many there are, if it matters; makes room if there is none.
    fn look(config: &Config, sql: &mut Sql<'_>, jobs: &[Job]) -> Result<Self, Fault> {
        let wanted = jobs.iter().filter(|job| job.admission.has_id()).count();
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        let readings = jobs.iter().filter_map(|job| match job.at {
            At::Given(reading) => Some(reading),
            At::StoreClock => None,
        });
        let now = readings.min().unwrap_or_default();
        let max = config.max_request_ids;
        let mut ids = Self { known: 0, max, reclaimed: 0, added: 0, now };
        if wanted > 0 {
            ids.known = sql.ids()?;
            if wanted > ids.max.saturating_sub(ids.known) {
                ids.reclaimed = sql.reclaim_once(now, wanted.saturating_add(RECLAIM))?;
            }
        }
        Ok(ids)
    }

    fn left(&self) -> u64 {
        self.known.saturating_sub(self.reclaimed)
    }

    fn room(&self) -> usize {
        usize::try_from(self.max.saturating_sub(self.left())).unwrap_or(usize::MAX)
    }

    /// Writes the number down if it has changed. For each id that came, two old ones may go, so that
    /// they never pile up.
    fn keep(mut self, sql: &mut Sql<'_>) -> Result<bool, Fault> {
        if self.added > 0 {
            let gone = sql.reclaim_once(self.now, self.added.saturating_mul(2))?;
            self.reclaimed = self.reclaimed.saturating_add(gone);
        }
        let has_changed = self.added > 0 || self.reclaimed > 0;
        if has_changed {
            sql.set_ids(self.left().saturating_add(self.added))?;
        }
        Ok(has_changed)
    }
}
