//! The SQLite storage of an object. Statements run at once, without waiting.
//!
//! A round reads with one statement and writes with one, so a write is atomic by itself.

use core::cell::Cell;

use serde::Deserialize;
use tollgate_core::store::record::SETTLED;
use tollgate_core::{Micros, Result};
use worker::{SqlCursor, SqlStorage, SqlStorageValue};

use super::{AFTER_RECORDS, PAGE, RECORDS, Row, Swept, stored_name};
use crate::error::unavailable;
use crate::sql;

/// Names are a column: they may be of any length that is reasonable.
const NAME_MAX_BYTES: usize = 8_192;
const WHAT: &str = "the database of the object failed";

const COUNT: &str = "SELECT count(*) AS number FROM tollgate_values WHERE name >= ?1 AND name < ?2";
const RECLAIM: &str = "DELETE FROM tollgate_values WHERE name IN (SELECT name FROM tollgate_values \
     WHERE name >= ?1 AND name < ?2 AND keep_until <= ?3 LIMIT ?4) RETURNING 1 AS number";
const FORGET: &str = "DELETE FROM tollgate_values WHERE name IN (SELECT name FROM tollgate_values \
     WHERE name >= ?1 AND name < ?2 AND instr(substr(value, instr(value, '\",\"')), ?3) = 0 \
     ORDER BY keep_until LIMIT ?4) RETURNING 1 AS number";
const IS_USED: &str = "SELECT EXISTS (SELECT 1 FROM tollgate_values) AS number";

/// The SQLite storage.
#[derive(Debug)]
pub(crate) struct Sqlite {
    sql: SqlStorage,
    has_table: Cell<bool>,
}

#[derive(Deserialize)]
struct Number {
    number: u32,
}

impl Sqlite {
    pub(crate) const fn new(sql: SqlStorage) -> Self {
        Self { sql, has_table: Cell::new(false) }
    }

    pub(super) fn read(&self, names: &[&str]) -> Result<Vec<Option<String>>> {
        let names = names.iter().map(|name| stored_name(name, NAME_MAX_BYTES)).collect::<Vec<_>>();
        let rows = self.run(sql::READ, vec![sql::names_json(&names).into()])?;
        let rows: Vec<sql::ReadRow> = rows.to_array().map_err(|e| unavailable(WHAT, &e))?;
        let values = sql::in_order(names.len(), rows, |row| row.value);
        Ok(values)
    }

    pub(super) fn write(&self, rows: &[Row<'_>]) -> Result<()> {
        let rows = rows.iter().map(|row| {
            let name = stored_name(row.name, NAME_MAX_BYTES);
            (name, row.value, row.keep_until)
        });
        let json = sql::rows_json(rows);
        self.run(sql::WRITE, vec![json.into()]).map(drop)
    }

    pub(super) fn delete(&self, name: &str) -> Result<()> {
        let name = stored_name(name, NAME_MAX_BYTES);
        self.run("DELETE FROM tollgate_values WHERE name = ?1", vec![name.into()]).map(drop)
    }

    pub(super) fn count_records(&self) -> Result<usize> {
        let number = self.number(COUNT, vec![RECORDS.into(), AFTER_RECORDS.into()])?;
        Ok(usize::try_from(number).unwrap_or(usize::MAX))
    }

    /// Deletes all expired request ids.
    pub(super) fn reclaim_records(&self, now: Micros) -> Result<()> {
        while self.reclaim((RECORDS, AFTER_RECORDS), now)? {}
        Ok(())
    }

    /// Deletes the oldest request ids whose names begin with a text, but those of settlements. How
    /// many it found.
    pub(super) fn forget_records(&self, names_begin_with: &str, count: usize) -> Result<usize> {
        let to = format!("{names_begin_with}{}", char::MAX);
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let values = vec![names_begin_with.into(), to.into(), SETTLED.into(), count.into()];
        let deleted = self.run(FORGET, values)?;
        let deleted: Vec<Number> = deleted.to_array().map_err(|e| unavailable(WHAT, &e))?;
        Ok(deleted.len())
    }

    /// Deletes a page of expired values between two names; whether there may be more.
    fn reclaim(&self, (from, to): (&str, &str), now: Micros) -> Result<bool> {
        let values = vec![from.into(), to.into(), sql::integer(now).into(), page().into()];
        let deleted = self.run(RECLAIM, values)?;
        let deleted: Vec<Number> = deleted.to_array().map_err(|e| unavailable(WHAT, &e))?;
        Ok(deleted.len() >= PAGE)
    }

    pub(super) fn sweep(&self, now: Micros) -> Result<Swept> {
        // Every name is between these two.
        let has_more = self.reclaim(("", "~"), now)?;
        let has_values = self.number(IS_USED, Vec::new())? > 0;
        Ok(Swept { has_values, has_more })
    }

    fn number(&self, query: &str, values: Vec<SqlStorageValue>) -> Result<u32> {
        let row = self.run(query, values)?.one::<Number>();
        row.map(|row| row.number).map_err(|error| unavailable(WHAT, &error))
    }

    fn run(&self, query: &str, values: Vec<SqlStorageValue>) -> Result<SqlCursor> {
        if !self.has_table.get() {
            self.sql.exec(sql::CREATE, None).map_err(|error| unavailable(WHAT, &error))?;
            self.has_table.set(true);
        }
        self.sql.exec(query, values).map_err(|error| unavailable(WHAT, &error))
    }
}

fn page() -> i64 {
    i64::try_from(PAGE).unwrap_or(i64::MAX)
}
