//! One round: many admissions, one transaction, one wait for the disk.
//!
//! The file is held from the start, so that what was read stays as it is until it is written. Values are
//! read from what is known of the logs, else from the tables, and written to the log of the epoch. Until
//! the commit nothing is charged; a commit that failed may have happened or not, and is never tried again.

use rusqlite::Connection;
use tollgate_core::store::round::{Round, RoundBounds, ValueName};
use tollgate_core::store::{Evidence, TimeSource};
use tollgate_core::{Charge, Error, Micros};

use crate::config::Config;
use crate::fault::Fault;
use crate::fold;
use crate::job::Job;
use crate::recent::{Recent, Shared, Stage, size};
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

/// A transaction that has begun and knows what was written before it.
#[derive(Debug)]
pub(crate) struct Opened {
    stage: Stage,
    has_folded: bool,
}

/// What a round came to.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) outcomes: Vec<tollgate_core::Result<Evidence>>,
    /// How much it has added to the logs.
    pub(crate) bytes: usize,
}

/// What can be done before it is known who takes part: reads what others have written, and folds what the
/// round before owes.
pub(crate) fn open(sql: &mut Sql<'_>, recent: &Shared, owed: usize) -> Result<Opened, Fault> {
    let mut recent = recent.lock();
    let mut stage = recent.refresh(&mut sql.log)?;
    let has_folded = fold::keep_up(sql, &recent, &mut stage, owed)?;
    Ok(Opened { stage, has_folded })
}

/// Decides the jobs and forgets the keys inside of a transaction that was opened, and ends it.
pub(crate) fn run(
    config: &Config,
    connection: &Connection,
    (sql, recent, opened): (&mut Sql<'_>, &Shared, Opened),
    (jobs, resets): (&[Job], &[&str]),
) -> Result<Written, Unwritten> {
    let recent = recent.lock();
    let mut draft = Draft { sql, recent: &recent, opened, written: 0, has_folded_all: false };
    let charges: Vec<Vec<Charge<'_>>> = jobs.iter().map(|job| job.admission.charges()).collect();
    let admissions = jobs.iter().zip(&charges).map(|(job, own)| (job.admission.of(own), job.at));
    let round = Round::of(admissions);
    let values = round.names().map(|name| draft.read(name, resets));
    let values: Vec<Option<String>> = values.collect::<Result<_, _>>()?;
    let was_there: Vec<bool> = values.iter().map(Option::is_some).collect();
    let mut ids = Ids::look(config, &mut draft, jobs)?;
    // After the logs may have been folded and emptied.
    for key in resets {
        draft.write(key, (None, 0), false)?;
    }
    let bounds = RoundBounds { slack: config.slack, room: ids.room() };
    let decided = round.decide(values, None, bounds)?;
    let names: Vec<ValueName<'_>> = round.names().collect();
    for write in &decided.writes {
        let Some(name) = names.get(write.place) else { continue };
        let is_known = was_there.get(write.place) == Some(&true) && draft.is_kept(*name)?;
        ids.added += u64::from(name.is_record && !is_known);
        draft.write(name.text, (Some(&write.text), write.keep_until), name.is_record)?;
    }
    ids.keep(draft.sql)?;
    let (has_changed, bytes) = (draft.has_changed(), draft.written);
    // Whoever looks need not wait for the disk.
    drop(recent);
    if has_changed {
        commit(connection)?;
    } else {
        undo(connection);
    }
    Ok(Written { outcomes: decided.outcomes, bytes })
}

/// What a round reads and writes.
struct Draft<'a, 'c> {
    sql: &'a mut Sql<'c>,
    recent: &'a Recent,
    opened: Opened,
    /// How much it has written to the log.
    written: usize,
    /// Whether everything that was recent is in the tables now.
    has_folded_all: bool,
}

impl Draft<'_, '_> {
    fn read(&mut self, name: ValueName<'_>, resets: &[&str]) -> Result<Option<String>, Fault> {
        if resets.contains(&name.text) {
            return Ok(None);
        }
        match self.recent.value(name.text) {
            Some(value) => Ok(value.text.clone()),
            None => self.sql.read(name.text, name.is_record),
        }
    }

    /// Whether a request id that was read, and so has expired, is still kept. What is about to be
    /// written anew is taken from the table, because what is in both would be counted twice.
    fn is_kept(&mut self, name: ValueName<'_>) -> Result<bool, Fault> {
        let is_recent = !self.has_folded_all && self.recent.value(name.text).is_some();
        Ok(name.is_record && (is_recent || self.sql.forget_once(name.text)?))
    }

    fn write(
        &mut self,
        name: &str,
        value: (Option<&str>, Micros),
        is_record: bool,
    ) -> Result<(), Fault> {
        self.written = self.written.saturating_add(size(name.as_bytes(), value.0));
        self.sql.append(self.opened.stage.epoch, name, value, is_record)
    }

    /// Folds everything, so that the tables have it.
    fn fold_all(&mut self) -> Result<(), Fault> {
        self.has_folded_all = true;
        fold::all(self.sql, self.recent, &mut self.opened.stage)
    }

    const fn has_changed(&self) -> bool {
        self.written > 0 || self.opened.has_folded || self.has_folded_all
    }
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
    fn look(config: &Config, draft: &mut Draft<'_, '_>, jobs: &[Job]) -> Result<Self, Fault> {
        let wanted = jobs.iter().filter(|job| job.admission.has_id()).count();
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        let readings = jobs.iter().filter_map(|job| match job.at {
            TimeSource::Given(reading) => Some(reading),
            TimeSource::StoreClock => None,
        });
        let now = readings.min().unwrap_or_default();
        let max = config.max_request_ids;
        let mut ids = Self { known: 0, max, reclaimed: 0, added: 0, now };
        if wanted > 0 {
            ids.known = draft.sql.ids()?;
            if wanted > ids.max.saturating_sub(ids.known) {
                draft.fold_all()?;
                ids.reclaimed = draft.sql.reclaim_once(now, wanted.saturating_add(RECLAIM))?;
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
    fn keep(mut self, sql: &mut Sql<'_>) -> Result<(), Fault> {
        if self.added > 0 {
            let gone = sql.reclaim_once(self.now, self.added.saturating_mul(2))?;
            self.reclaimed = self.reclaimed.saturating_add(gone);
        }
        if self.added > 0 || self.reclaimed > 0 {
            sql.set_ids(self.left().saturating_add(self.added))?;
        }
        Ok(())
    }
}
