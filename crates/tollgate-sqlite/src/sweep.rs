//! Deletes expired values page by page: request ids first, then limits. Before that, the logs are
//! compacted, so that all values are in the tables.
//!
//! A page of limits is scanned without a lock, in key order: limits have no index on their expiry.
//! Only if it contains expired values, a transaction checks and deletes them. Callers are served
//! between two pages, and the background sweep pauses. The store has no clock: a value is expired
//! by the newest reading of a caller.

use core::time::Duration;

use rusqlite::{Connection, params};
use tollgate_core::Micros;

use crate::compaction;
use crate::config::{Config, micros};
use crate::error::QueryError;
use crate::log_index::LogIndex;
use crate::sql::{Sql, integer};

/// Values in one page: about a millisecond.
const PAGE_VALUES: u64 = 1_000;
/// How much one page compacts.
const COMPACTION_BYTES: usize = 256 << 10;
/// The pause of the background sweep between two pages.
const PAUSE: Micros = 10_000;

const SCAN: &str =
    "SELECT key, expires <= ?2 FROM tollgate_limits WHERE key > ?1 ORDER BY key LIMIT ?3";
const DELETE: &str = "DELETE FROM tollgate_limits WHERE key = ?1 AND expires <= ?2";

/// Where a sweep continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SweepPosition {
    /// Compacts the logs, until all values from before this epoch are in the tables.
    Logs(Option<i64>),
    /// Deletes request ids.
    RequestIds,
    /// Deletes limits after this key.
    LimitsAfter(Vec<u8>),
}

impl SweepPosition {
    pub(crate) const START: Self = Self::Logs(None);
}

/// The result of one page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SweptPage {
    pub(crate) deleted: u64,
    /// The next page; `None` at the end.
    pub(crate) next: Option<SweepPosition>,
    /// Whether the transaction has to be committed.
    pub(crate) has_changed: bool,
}

impl SweptPage {
    fn new(deleted: u64, next: Option<SweepPosition>) -> Self {
        Self { deleted, next, has_changed: deleted > 0 }
    }
}

/// What a page found without a lock.
#[derive(Debug)]
pub(crate) struct ScannedPage {
    expired: Vec<Vec<u8>>,
    next: Option<SweepPosition>,
}

impl ScannedPage {
    /// Scans one page without writing.
    pub(crate) fn scan(
        connection: &Connection,
        position: SweepPosition,
        now: Micros,
    ) -> Result<Self, QueryError> {
        let SweepPosition::LimitsAfter(after) = position else {
            return Ok(Self { expired: Vec::new(), next: Some(position) });
        };
        let mut statement = connection.prepare(SCAN)?;
        let mut rows = statement.query(params![after, integer(now), integer(PAGE_VALUES)])?;
        let (mut expired, mut scanned, mut last) = (Vec::new(), 0, after);
        while let Some(row) = rows.next()? {
            last = row.get(0)?;
            scanned += 1;
            if row.get(1)? {
                expired.push(last.clone());
            }
        }
        let next = (scanned == PAGE_VALUES).then_some(SweepPosition::LimitsAfter(last));
        Ok(Self { expired, next })
    }

    /// Whether a transaction is needed.
    pub(crate) fn needs_transaction(&self) -> bool {
        let is_limits =
            !matches!(self.next, Some(SweepPosition::Logs(_) | SweepPosition::RequestIds));
        !self.expired.is_empty() || !is_limits
    }

    /// The result without a transaction.
    pub(crate) fn skip(self) -> SweptPage {
        SweptPage::new(0, self.next)
    }

    /// Compacts or deletes, inside of a transaction.
    pub(crate) fn delete(
        self,
        connection: &Connection,
        (sql, index): (&mut Sql<'_>, &mut LogIndex),
        now: Micros,
    ) -> Result<SweptPage, QueryError> {
        if let Some(SweepPosition::Logs(until)) = self.next {
            return compact(sql, index, until);
        }
        if self.next == Some(SweepPosition::RequestIds) {
            let deleted = sql.reclaim_records(now, PAGE_VALUES)?;
            let left = sql.request_ids()?.saturating_sub(deleted);
            sql.set_request_ids(left)?;
            let next = if deleted == PAGE_VALUES {
                SweepPosition::RequestIds
            } else {
                SweepPosition::LimitsAfter(Vec::new())
            };
            return Ok(SweptPage::new(deleted, Some(next)));
        }
        let mut statement = connection.prepare(DELETE)?;
        let mut sum = 0_u64;
        for key in self.expired {
            let deleted = statement.execute(params![key, integer(now)])?;
            sum = sum.saturating_add(u64::try_from(deleted).unwrap_or_default());
        }
        Ok(SweptPage::new(sum, self.next))
    }
}

/// Compacts a part of the logs.
fn compact(
    sql: &mut Sql<'_>,
    index: &mut LogIndex,
    until: Option<i64>,
) -> Result<SweptPage, QueryError> {
    let mut progress = index.refresh(&mut sql.log)?;
    let until = until.unwrap_or(progress.epoch.wrapping_add(1));
    let is_done = progress.epoch >= until && progress.compacted.is_none();
    if is_done || index.values().next().is_none() {
        return Ok(SweptPage::new(0, Some(SweepPosition::RequestIds)));
    }
    if progress.compacted.is_none() {
        compaction::begin_epoch(sql, &mut progress)?;
    }
    compaction::compact_part(sql, index, &mut progress, COMPACTION_BYTES)?;
    Ok(SweptPage { deleted: 0, next: Some(SweepPosition::Logs(Some(until))), has_changed: true })
}

/// The schedule of the background sweep.
#[derive(Debug)]
pub(crate) struct SweepSchedule {
    interval: Option<Micros>,
    position: SweepPosition,
    due: Micros,
}

impl SweepSchedule {
    pub(crate) fn new(config: &Config, now: Micros) -> Self {
        let interval = config.sweep_every.map(micros);
        let due = now.saturating_add(interval.unwrap_or_default());
        Self { interval, position: SweepPosition::START, due }
    }

    /// The time until the next page; `None` without a background sweep.
    pub(crate) fn wait(&self, now: Micros) -> Option<Duration> {
        self.interval.map(|_| Duration::from_micros(self.due.saturating_sub(now)))
    }

    /// The page that is due.
    pub(crate) fn due(&self, now: Micros) -> Option<SweepPosition> {
        self.interval.filter(|_| self.due <= now).map(|_| self.position.clone())
    }

    /// Makes room at once, if there is a background sweep: a file that is full cannot take the logs
    /// into its tables, so deleting comes first. A sweep that deletes already goes on.
    pub(crate) fn make_room(&mut self, now: Micros) {
        if matches!(self.position, SweepPosition::Logs(_)) {
            self.position = SweepPosition::RequestIds;
        }
        self.due = now;
    }

    /// Continues at `next` after a pause; `None` ends the sweep.
    pub(crate) fn advance(&mut self, next: Option<SweepPosition>, now: Micros) {
        let pause = if next.is_some() { PAUSE } else { self.interval.unwrap_or(Micros::MAX) };
        self.due = now.saturating_add(pause);
        self.position = next.unwrap_or(SweepPosition::START);
    }
}
