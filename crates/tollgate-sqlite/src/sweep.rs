//! Reclaims what means nothing any more: request ids first, then limits, page by page. Before that, what
//! is in the logs is folded into the tables, so that it is looked at as well.
//!
//! A page is looked through without a lock, in the order of keys, because limits have no index on their
//! expiry; only if something in it has expired is it deleted, in a transaction of its own, which looks
//! again. Between two pages everybody else is served, and the writer rests. There is no clock here: what
//! has expired is judged by the newest reading that callers have decided by.

use core::time::Duration;

use rusqlite::{Connection, params};
use tollgate_core::Micros;

use crate::config::{Config, micros};
use crate::fault::Fault;
use crate::fold;
use crate::recent::Recent;
use crate::sql::{Sql, stored};

/// Values in one page: about a millisecond.
const PAGE: u64 = 1_000;
/// What one page folds.
const FOLD_BYTES: usize = 256 << 10;
/// The writer rests so long between two pages of a sweep.
const REST: Micros = 10_000;

const LOOK: &str =
    "SELECT key, expires <= ?2 FROM tollgate_limits WHERE key > ?1 ORDER BY key LIMIT ?3";
const DELETE: &str = "DELETE FROM tollgate_limits WHERE key = ?1 AND expires <= ?2";

/// Where a sweep is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At the logs, until everything is folded that was there when this epoch began.
    Log(Option<i64>),
    /// At the request ids.
    Once,
    /// At the limits after this key.
    After(Vec<u8>),
}

/// What one page came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) gone: u64,
    /// Where the next one begins; `None` at the end.
    pub(crate) next: Option<Place>,
    /// Whether there is anything to commit.
    pub(crate) has_changed: bool,
}

impl Page {
    fn new(gone: u64, next: Option<Place>) -> Self {
        Self { gone, next, has_changed: gone > 0 }
    }
}

/// What a page would delete.
#[derive(Debug)]
pub(crate) struct Found {
    keys: Vec<Vec<u8>>,
    next: Option<Place>,
}

impl Found {
    /// Looks through one page, writing nothing.
    pub(crate) fn look(connection: &Connection, place: Place, now: Micros) -> Result<Self, Fault> {
        let Place::After(after) = place else {
            return Ok(Self { keys: Vec::new(), next: Some(place) });
        };
        let mut statement = connection.prepare(LOOK)?;
        let mut rows = statement.query(params![after, stored(now), stored(PAGE)])?;
        let (mut keys, mut seen, mut last) = (Vec::new(), 0, after);
        while let Some(row) = rows.next()? {
            last = row.get(0)?;
            seen += 1;
            if row.get(1)? {
                keys.push(last.clone());
            }
        }
        Ok(Self { keys, next: (seen == PAGE).then_some(Place::After(last)) })
    }

    /// Whether a transaction is needed.
    pub(crate) fn is_idle(&self) -> bool {
        self.keys.is_empty() && !matches!(self.next, Some(Place::Log(_) | Place::Once))
    }

    /// Ends without deleting anything.
    pub(crate) fn skip(self) -> Page {
        Page::new(0, self.next)
    }

    /// Deletes, inside of a transaction.
    pub(crate) fn delete(
        self,
        connection: &Connection,
        (sql, recent): (&mut Sql<'_>, &mut Recent),
        now: Micros,
    ) -> Result<Page, Fault> {
        if let Some(Place::Log(until)) = self.next {
            return fold(sql, recent, until);
        }
        if self.next == Some(Place::Once) {
            let gone = sql.reclaim_once(now, PAGE)?;
            let left = sql.ids()?.saturating_sub(gone);
            sql.set_ids(left)?;
            let next = if gone == PAGE { Place::Once } else { Place::After(Vec::new()) };
            return Ok(Page::new(gone, Some(next)));
        }
        let mut statement = connection.prepare(DELETE)?;
        let mut gone = 0_u64;
        for key in self.keys {
            let deleted = statement.execute(params![key, stored(now)])?;
            gone = gone.saturating_add(u64::try_from(deleted).unwrap_or_default());
        }
        Ok(Page::new(gone, self.next))
    }
}

/// Folds a part of the logs.
fn fold(sql: &mut Sql<'_>, recent: &mut Recent, until: Option<i64>) -> Result<Page, Fault> {
    let mut stage = recent.refresh(&mut sql.log)?;
    let until = until.unwrap_or(stage.epoch.wrapping_add(1));
    let is_done = stage.epoch >= until && stage.after.is_none();
    if is_done || recent.values().next().is_none() {
        return Ok(Page::new(0, Some(Place::Once)));
    }
    if stage.after.is_none() {
        fold::begin_epoch(sql, &mut stage)?;
    }
    fold::some(sql, recent, &mut stage, FOLD_BYTES)?;
    Ok(Page { gone: 0, next: Some(Place::Log(Some(until))), has_changed: true })
}

/// The sweeps in the background.
#[derive(Debug)]
pub(crate) struct Schedule {
    every: Option<Micros>,
    place: Place,
    due: Micros,
}

impl Schedule {
    pub(crate) fn new(config: &Config, now: Micros) -> Self {
        let every = config.sweep_every.map(micros);
        Self { every, place: Place::Log(None), due: now.saturating_add(every.unwrap_or_default()) }
    }

    /// How long until the next page; `None` if there is none.
    pub(crate) fn rest(&self, now: Micros) -> Option<Duration> {
        self.every.map(|_| Duration::from_micros(self.due.saturating_sub(now)))
    }

    /// The page that is due, if one is.
    pub(crate) fn due(&self, now: Micros) -> Option<Place> {
        self.every.filter(|_| self.due <= now).map(|_| self.place.clone())
    }

    /// Goes on from where a page ended, or tries again later.
    pub(crate) fn done(&mut self, next: Option<Place>, now: Micros) {
        let rest = if next.is_some() { REST } else { self.every.unwrap_or(Micros::MAX) };
        self.due = now.saturating_add(rest);
        self.place = next.unwrap_or(Place::Log(None));
    }
}
