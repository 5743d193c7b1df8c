//! The table and the statements that the SQLite storage of an object and D1 share.
//!
//! A statement takes all its rows in one argument, a JSON array: so one statement reads or writes
//! any number of values, and each statement is atomic by itself.

use serde::{Deserialize, Serialize};
use tollgate_core::Micros;

/// The table. Without a row id, a charge writes one row. The version is used by D1 alone.
pub(crate) const CREATE: &str = "CREATE TABLE IF NOT EXISTS tollgate_values \
     (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL, keep_until INTEGER NOT NULL, \
     version INTEGER NOT NULL DEFAULT 1) WITHOUT ROWID";

/// Reads the values of a JSON array of names, each with its place in the array.
pub(crate) const READ: &str = "SELECT asked.key AS place, found.value AS value, found.version AS \
     version FROM json_each(?1) AS asked JOIN tollgate_values AS found ON found.name = asked.value";

/// Writes a JSON array of rows `[name, value, keep_until]`.
pub(crate) const WRITE: &str = "INSERT INTO tollgate_values (name, value, keep_until) \
     SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), \
     json_extract(value, '$[2]') FROM json_each(?1) WHERE true \
     ON CONFLICT (name) DO UPDATE SET value = excluded.value, keep_until = excluded.keep_until, \
     version = version + 1";

/// A row of [`READ`].
#[derive(Debug, Deserialize)]
pub(crate) struct ReadRow {
    place: u32,
    pub(crate) value: String,
    pub(crate) version: u64,
}

/// The rows of a read in the order of the names.
pub(crate) fn in_order<T: Clone>(
    names: usize,
    rows: Vec<ReadRow>,
    read: impl Fn(ReadRow) -> T,
) -> Vec<Option<T>> {
    let mut values = vec![None; names];
    for row in rows {
        let place = usize::try_from(row.place).unwrap_or(usize::MAX);
        if let Some(value) = values.get_mut(place) {
            *value = Some(read(row));
        }
    }
    values
}

/// The argument of [`READ`].
pub(crate) fn names_json<N: AsRef<str>>(names: &[N]) -> String {
    json(&names.iter().map(AsRef::as_ref).collect::<Vec<&str>>())
}

/// The argument of [`WRITE`].
pub(crate) fn rows_json<'a>(rows: impl Iterator<Item = (String, &'a str, Micros)>) -> String {
    json(&rows.map(|(name, value, until)| (name, value, integer(until))).collect::<Vec<_>>())
}

/// Tuples are arrays of JSON.
pub(crate) fn json(rows: &impl Serialize) -> String {
    // Encoding numbers and texts does not fail.
    serde_json::to_string(rows).unwrap_or_default()
}

/// A number as SQLite and JavaScript keep it exactly.
pub(crate) fn integer(number: u64) -> i64 {
    const EXACT_MAX: i64 = (1 << 53) - 1;
    i64::try_from(number).map_or(EXACT_MAX, |number| number.min(EXACT_MAX))
}
