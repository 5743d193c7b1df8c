//! The storage of an object: names and texts, read and written at once.
//!
//! Both classes of objects keep the same names and texts. Names of states begin with `s:`, those of
//! request ids with `r:`, so that request ids can be counted without reading the states.

mod key_value;
mod sqlite;

use std::borrow::Cow;

use tollgate_core::store::record;
use tollgate_core::store::round::Forget;
use tollgate_core::{Micros, Result};

use crate::name;

pub(super) use key_value::KeyValue;
pub(super) use sqlite::Sqlite;

/// The prefix of request ids, and the first text after all of them.
const RECORDS: &str = "r:";
const AFTER_RECORDS: &str = "r;";
/// How many expired values one call deletes.
const PAGE: usize = 1_000;

/// A value to write.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a str,
    pub(super) keep_until: Micros,
}

/// What a page of a sweep found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Swept {
    /// Whether a value is left, so that another sweep is needed one day.
    pub(super) has_values: bool,
    /// Whether there may be more expired values, so that another sweep is needed now.
    pub(super) has_more: bool,
}

/// The storage of an object, by its class.
#[derive(Debug)]
pub(super) enum ObjectStorage {
    KeyValue(KeyValue),
    Sqlite(Sqlite),
}

impl ObjectStorage {
    /// The values of names, in their order.
    pub(super) async fn read(&self, names: &[&str]) -> Result<Vec<Option<String>>> {
        match self {
            Self::KeyValue(storage) => storage.read(names).await,
            Self::Sqlite(storage) => storage.read(names),
        }
    }

    /// Writes all values or none.
    pub(super) async fn write(&self, rows: &[Row<'_>]) -> Result<()> {
        match self {
            Self::KeyValue(storage) => storage.write(rows).await,
            Self::Sqlite(storage) => storage.write(rows),
        }
    }

    pub(super) async fn delete(&self, name: &str) -> Result<()> {
        match self {
            Self::KeyValue(storage) => storage.delete(name).await,
            Self::Sqlite(storage) => storage.delete(name),
        }
    }

    /// How many request ids are stored.
    pub(super) async fn count_records(&self) -> Result<usize> {
        match self {
            Self::KeyValue(storage) => storage.count_records().await,
            Self::Sqlite(storage) => storage.count_records(),
        }
    }

    /// Deletes all request ids that may be forgotten at `now`.
    pub(super) async fn reclaim_records(&self, now: Micros) -> Result<()> {
        match self {
            Self::KeyValue(storage) => storage.reclaim_records(now).await,
            Self::Sqlite(storage) => storage.reclaim_records(now),
        }
    }

    /// Deletes the oldest request ids, but those of settlements. How many it found.
    pub(super) async fn forget_records(&self, forget: &Forget) -> Result<usize> {
        let names_begin_with = format!("{RECORDS}{}", forget.names_begin_with.replace('\0', "%00"));
        match self {
            Self::KeyValue(storage) => {
                storage.forget_records(&names_begin_with, forget.count).await
            }
            Self::Sqlite(storage) => storage.forget_records(&names_begin_with, forget.count),
        }
    }

    /// Deletes a page of values that may be forgotten at `now`.
    pub(super) async fn sweep(&self, now: Micros) -> Result<Swept> {
        match self {
            Self::KeyValue(storage) => storage.sweep(now).await,
            Self::Sqlite(storage) => storage.sweep(now),
        }
    }
}

/// The name under which a value is stored.
fn stored_name(text: &str, max_bytes: usize) -> String {
    let prefix = if record::is_name(text) { RECORDS } else { "s:" };
    let name: Cow<'_, str> = name::stored(text, max_bytes);
    format!("{prefix}{name}")
}
