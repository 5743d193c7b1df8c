//! What was written lately and is not in the tables yet, as the file has it, kept in memory.
//!
//! A round appends what it writes to a log, where many values share a page, instead of writing a page for
//! each of them. There are two logs, by turns: an epoch writes to one of them while what the epoch before
//! has left in the other is folded into the tables, key by key. The logs cannot be searched, so every
//! process keeps what is in them here, and reads on from where it was, in the transaction that needs to
//! know. Nothing gets in here but by reading the file, and only what was committed: so that it does not
//! matter who wrote, and a round that fails leaves no trace.

use core::ops::Bound::{Excluded, Included, Unbounded};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fault::Fault;
use crate::sql::LogSql;

/// What a value takes in memory beside its texts, roughly.
const OVERHEAD: usize = 64;

/// How far the logs are, as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    /// The number of the epoch that is written.
    pub(crate) epoch: i64,
    /// The keys up to this one are folded of the epoch before; `None` once all of them are.
    pub(crate) after: Option<Vec<u8>>,
}

/// The newest value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// `None` where there is none any more.
    pub(crate) text: Option<String>,
    pub(crate) expires: i64,
    pub(crate) is_record: bool,
    /// The epoch that wrote it.
    pub(crate) epoch: i64,
}

/// What is in the logs and not in the tables.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// Up to where the logs were read; `None` if that is not known.
    seen: Option<Seen>,
    values: BTreeMap<Vec<u8>, Value>,
    /// What the epoch that is written has written.
    bytes: usize,
}

#[derive(Debug)]
struct Seen {
    stage: Stage,
    row: i64,
}

/// One for all threads of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared(Arc<Mutex<Recent>>);

impl Shared {
    /// Whoever reads on holds this from before its transaction sees the file, so that nobody goes back.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Recent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    /// Reads on, inside of a transaction; how far the logs are.
    pub(crate) fn refresh(&mut self, log: &mut LogSql<'_>) -> Result<Stage, Fault> {
        let stage = log.stage()?;
        // Whatever fails in between, everything is read anew.
        let row = match self.seen.take() {
            Some(Seen { stage: was, row }) if was.epoch == stage.epoch => {
                if was.after != stage.after {
                    self.forget(was.after.unwrap_or_default(), &stage);
                }
                row
            }
            // The epoch that was written is folded now; that before it is in the tables.
            Some(Seen { stage: was, row })
                if was.epoch.checked_add(1) == Some(stage.epoch) && stage.after.is_some() =>
            {
                self.values.retain(|_, value| value.epoch == was.epoch);
                self.read(log, was.epoch, row)?;
                self.forget(Vec::new(), &stage);
                self.bytes = 0;
                0
            }
            _ => {
                self.values.clear();
                if stage.after.is_some() {
                    self.read(log, stage.epoch.wrapping_sub(1), 0)?;
                    self.forget(Vec::new(), &stage);
                }
                self.bytes = 0;
                0
            }
        };
        let row = self.read(log, stage.epoch, row)?;
        self.seen = Some(Seen { stage: stage.clone(), row });
        Ok(stage)
    }

    /// The newest value of a key; `None` if the tables have it.
    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key.as_bytes())
    }

    /// Everything, in the order of keys.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&[u8], &Value)> {
        self.values.iter().map(|(key, value)| (key.as_slice(), value))
    }

    /// What epochs before this one have left, in the order of keys, after one of them.
    pub(crate) fn left_by_others<'a>(
        &'a self,
        epoch: i64,
        after: &[u8],
    ) -> impl Iterator<Item = (&'a [u8], &'a Value)> {
        let range = self.values.range::<[u8], _>((Excluded(after), Unbounded));
        let left = range.filter(move |(_, value)| value.epoch != epoch);
        left.map(|(key, value)| (key.as_slice(), value))
    }

    /// How much the epoch that is written has written.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads the log of an epoch after a row; the last row.
    fn read(&mut self, log: &mut LogSql<'_>, epoch: i64, row: i64) -> Result<i64, Fault> {
        let mut last = row;
        log.each_after(epoch, row, |row, key, value| {
            self.bytes = self.bytes.saturating_add(size(&key, value.text.as_deref()));
            self.values.insert(key, value);
            last = row;
        })?;
        Ok(last)
    }

    /// Forgets what was folded after this key.
    fn forget(&mut self, from: Vec<u8>, stage: &Stage) {
        let end = match &stage.after {
            None => Unbounded,
            Some(after) if *after > from => Included(after.clone()),
            Some(_) => return,
        };
        let is_old = |_: &Vec<u8>, value: &mut Value| value.epoch != stage.epoch;
        self.values.extract_if((Excluded(from), end), is_old).for_each(drop);
    }
}

/// How much a value counts towards the bound of the logs.
pub(crate) fn size(key: &[u8], text: Option<&str>) -> usize {
    OVERHEAD + key.len() + text.map_or(0, str::len)
}
