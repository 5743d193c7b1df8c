//! An in-memory index of the log: the values that were written recently and are not in the tables
//! yet.
//!
//! A round appends its values to a log, where many values share a page, instead of writing one page
//! per value. There are two logs, which alternate: one epoch appends to one of them, while the
//! values that the previous epoch left in the other one are compacted into the tables, in key
//! order. A log cannot be searched by key. Every process therefore keeps this index, and reads the
//! rows that were appended since, within the transaction that needs them. The index is filled only
//! from the file and only with committed rows: which process wrote them does not matter, and a
//! round that is rolled back leaves no trace.

use core::ops::Bound::{Excluded, Included, Unbounded};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::QueryError;
use crate::sql::LogSql;

/// The approximate size of an entry without its texts.
const OVERHEAD: usize = 64;

/// The progress of the logs, as the file stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogProgress {
    /// The number of the epoch that appends.
    pub(crate) epoch: i64,
    /// The last key of the previous epoch that was compacted; `None` once all were.
    pub(crate) compacted: Option<Vec<u8>>,
}

/// The newest value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedValue {
    /// `None` if the value was deleted.
    pub(crate) text: Option<String>,
    pub(crate) expires: i64,
    pub(crate) is_record: bool,
    /// The epoch that wrote it.
    pub(crate) epoch: i64,
}

/// The index.
#[derive(Debug, Default)]
pub(crate) struct LogIndex {
    /// How far the logs were read; `None` if they have to be read from the start.
    position: Option<Position>,
    values: BTreeMap<Vec<u8>, LoggedValue>,
    /// The size of what the current epoch has appended.
    bytes: usize,
}

#[derive(Debug)]
struct Position {
    progress: LogProgress,
    row: i64,
}

/// The index of one process, shared by its threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedLogIndex(Arc<Mutex<LogIndex>>);

impl SharedLogIndex {
    /// Has to be locked before the transaction that reads the log begins. Otherwise an older
    /// snapshot could be read after a newer one.
    pub(crate) fn lock(&self) -> MutexGuard<'_, LogIndex> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogIndex {
    /// Reads the rows that were appended since, inside of a transaction.
    pub(crate) fn refresh(&mut self, log: &mut LogSql<'_>) -> Result<LogProgress, QueryError> {
        let progress = log.progress()?;
        // Taken: after an error everything is read from the start.
        let row = match self.position.take() {
            Some(Position { progress: known, row }) if known.epoch == progress.epoch => {
                if known.compacted != progress.compacted {
                    self.remove_compacted(known.compacted.unwrap_or_default(), &progress);
                }
                row
            }
            // The epoch that appended is the previous one now, and all before it is in the tables.
            Some(Position { progress: known, row })
                if known.epoch.checked_add(1) == Some(progress.epoch)
                    && progress.compacted.is_some() =>
            {
                self.values.retain(|_, value| value.epoch == known.epoch);
                self.read(log, known.epoch, row)?;
                self.remove_compacted(Vec::new(), &progress);
                self.bytes = 0;
                0
            }
            _ => {
                self.values.clear();
                if progress.compacted.is_some() {
                    self.read(log, progress.epoch.wrapping_sub(1), 0)?;
                    self.remove_compacted(Vec::new(), &progress);
                }
                self.bytes = 0;
                0
            }
        };
        let row = self.read(log, progress.epoch, row)?;
        self.position = Some(Position { progress: progress.clone(), row });
        Ok(progress)
    }

    /// The newest value of a key; `None` if it is in the tables.
    pub(crate) fn value(&self, key: &str) -> Option<&LoggedValue> {
        self.values.get(key.as_bytes())
    }

    /// All values, in key order.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&[u8], &LoggedValue)> {
        self.values.iter().map(|(key, value)| (key.as_slice(), value))
    }

    /// The values of epochs before this one, in key order, after a key.
    pub(crate) fn values_before_epoch<'a>(
        &'a self,
        epoch: i64,
        after: &[u8],
    ) -> impl Iterator<Item = (&'a [u8], &'a LoggedValue)> {
        let range = self.values.range::<[u8], _>((Excluded(after), Unbounded));
        let older = range.filter(move |(_, value)| value.epoch != epoch);
        older.map(|(key, value)| (key.as_slice(), value))
    }

    /// The size of what the current epoch has appended.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads the log of an epoch after a row. Returns the last row.
    fn read(&mut self, log: &mut LogSql<'_>, epoch: i64, row: i64) -> Result<i64, QueryError> {
        let mut last = row;
        log.each_after(epoch, row, |row, key, value| {
            self.bytes = self.bytes.saturating_add(size(&key, value.text.as_deref()));
            self.values.insert(key, value);
            last = row;
        })?;
        Ok(last)
    }

    /// Removes the values after `from` that were compacted.
    fn remove_compacted(&mut self, from: Vec<u8>, progress: &LogProgress) {
        let end = match &progress.compacted {
            None => Unbounded,
            Some(last) if *last > from => Included(last.clone()),
            Some(_) => return,
        };
        let is_old = |_: &Vec<u8>, value: &mut LoggedValue| value.epoch != progress.epoch;
        self.values.extract_if((Excluded(from), end), is_old).for_each(drop);
    }
}

/// The size of a value in the log.
pub(crate) fn size(key: &[u8], text: Option<&str>) -> usize {
    OVERHEAD + key.len() + text.map_or(0, str::len)
}
