//! The statements, prepared once per connection.
//!
//! Keys are blobs: any text is accepted, also one with a NUL, and keys are compared byte by byte.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Statement, params};
use tollgate_core::Micros;
use tollgate_core::store::record::SETTLED;
use tollgate_core::store::round::Forget;

use crate::error::QueryError;
use crate::log_index::{LogProgress, LoggedValue};

/// Reads a value from the tables.
const READ: &str = "SELECT value FROM tollgate_limits WHERE key = ?1";
const READ_RECORD: &str = "SELECT value FROM tollgate_once WHERE key = ?1";
/// Writes a value to the tables.
const WRITE: &str = "INSERT INTO tollgate_limits (key, value, expires) VALUES (?1, ?2, ?3) \
     ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires";
const WRITE_RECORD: &str = "INSERT INTO tollgate_once (key, value, expires) VALUES (?1, ?2, ?3) \
     ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires";
const DELETE: &str = "DELETE FROM tollgate_limits WHERE key = ?1";
const DELETE_RECORD: &str = "DELETE FROM tollgate_once WHERE key = ?1";
/// Deletes a bounded number of expired request ids, in order of their expiry.
const RECLAIM_RECORDS: &str = "DELETE FROM tollgate_once WHERE number IN \
     (SELECT number FROM tollgate_once WHERE expires <= ?1 ORDER BY expires LIMIT ?2)";
/// Deletes the request ids that expire first, but for those of settlements: their values have a
/// text behind the id that no other has.
const FORGET: &str = "DELETE FROM tollgate_once WHERE number IN (SELECT number FROM tollgate_once \
     WHERE instr(substr(value, instr(value, '\",\"')), ?1) = 0 ORDER BY expires LIMIT ?2)";
const FORGET_SOME: &str = "DELETE FROM tollgate_once WHERE number IN (SELECT number FROM \
     tollgate_once WHERE key >= ?3 AND key < ?4 \
     AND instr(substr(value, instr(value, '\",\"')), ?1) = 0 ORDER BY expires LIMIT ?2)";
/// The number of request ids, updated in every transaction that changes it.
const REQUEST_IDS: &str = "SELECT number FROM tollgate_meta WHERE name = 'request_ids'";
const SET_REQUEST_IDS: &str = "UPDATE tollgate_meta SET number = ?1 WHERE name = 'request_ids'";
/// The progress of the logs.
const PROGRESS: &str = "SELECT epoch, after FROM tollgate_stage";
const SET_PROGRESS: &str = "UPDATE tollgate_stage SET epoch = ?1, after = ?2";

/// The statements that read the logs.
#[derive(Debug)]
pub(crate) struct LogSql<'c> {
    progress: Statement<'c>,
    rows: [Statement<'c>; 2],
}

/// The statements of a writer.
#[derive(Debug)]
pub(crate) struct Sql<'c> {
    pub(crate) log: LogSql<'c>,
    append: [Statement<'c>; 2],
    empty: [Statement<'c>; 2],
    set_progress: Statement<'c>,
    read: Statement<'c>,
    read_record: Statement<'c>,
    write: Statement<'c>,
    write_record: Statement<'c>,
    delete: Statement<'c>,
    delete_record: Statement<'c>,
    reclaim_records: Statement<'c>,
    forget: Statement<'c>,
    forget_some: Statement<'c>,
    request_ids: Statement<'c>,
    set_request_ids: Statement<'c>,
}

/// The statement that reads the value of a key from the tables.
pub(crate) fn read_statement(connection: &Connection) -> Result<Statement<'_>, QueryError> {
    Ok(connection.prepare(READ)?)
}

/// The value of a name, by a statement that reads.
pub(crate) fn value_of(read: &mut Statement<'_>, name: &str) -> Result<Option<String>, QueryError> {
    Ok(read.query_row([name.as_bytes()], |row| row.get_ref(0).map(text_of)).optional()?)
}

/// A damaged value affects its own key alone. It becomes a text that is reported as
/// `corrupt_state`.
fn text_of(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

impl<'c> LogSql<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> Result<Self, QueryError> {
        let rows = |number: u8| {
            connection.prepare(&format!(
                "SELECT number, key, value, expires, is_record FROM tollgate_log_{number} \
                 WHERE number > ?1 ORDER BY number"
            ))
        };
        Ok(Self { progress: connection.prepare(PROGRESS)?, rows: [rows(0)?, rows(1)?] })
    }

    /// The progress of the logs.
    pub(crate) fn progress(&mut self) -> Result<LogProgress, QueryError> {
        let progress = |row: &rusqlite::Row<'_>| {
            Ok(LogProgress { epoch: row.get(0)?, compacted: row.get(1)? })
        };
        Ok(self.progress.query_row([], progress)?)
    }

    /// Visits the rows of an epoch after a row, in order.
    pub(crate) fn each_after(
        &mut self,
        epoch: i64,
        row: i64,
        mut visit: impl FnMut(i64, Vec<u8>, LoggedValue),
    ) -> Result<(), QueryError> {
        let mut rows = of_epoch(&mut self.rows, epoch).query([row])?;
        while let Some(row) = rows.next()? {
            let text = match row.get_ref(2)? {
                ValueRef::Null => None,
                value => Some(text_of(value)),
            };
            let (expires, is_record) = (row.get(3)?, row.get(4)?);
            visit(row.get(0)?, row.get(1)?, LoggedValue { text, expires, is_record, epoch });
        }
        Ok(())
    }
}

/// Epochs alternate between the two logs.
fn of_epoch<T>([even, odd]: &mut [T; 2], epoch: i64) -> &mut T {
    if epoch & 1 == 0 { even } else { odd }
}

impl<'c> Sql<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> Result<Self, QueryError> {
        let append = |number: u8| {
            connection.prepare(&format!(
                "INSERT INTO tollgate_log_{number} (key, value, expires, is_record) \
                 VALUES (?1, ?2, ?3, ?4)"
            ))
        };
        let empty = |number: u8| connection.prepare(&format!("DELETE FROM tollgate_log_{number}"));
        Ok(Self {
            log: LogSql::prepare(connection)?,
            append: [append(0)?, append(1)?],
            empty: [empty(0)?, empty(1)?],
            set_progress: connection.prepare(SET_PROGRESS)?,
            read: read_statement(connection)?,
            read_record: connection.prepare(READ_RECORD)?,
            write: connection.prepare(WRITE)?,
            write_record: connection.prepare(WRITE_RECORD)?,
            delete: connection.prepare(DELETE)?,
            delete_record: connection.prepare(DELETE_RECORD)?,
            reclaim_records: connection.prepare(RECLAIM_RECORDS)?,
            forget: connection.prepare(FORGET)?,
            forget_some: connection.prepare(FORGET_SOME)?,
            request_ids: connection.prepare(REQUEST_IDS)?,
            set_request_ids: connection.prepare(SET_REQUEST_IDS)?,
        })
    }

    /// The value of a name in the tables.
    pub(crate) fn read(
        &mut self,
        name: &str,
        is_record: bool,
    ) -> Result<Option<String>, QueryError> {
        value_of(if is_record { &mut self.read_record } else { &mut self.read }, name)
    }

    /// Appends a value to the log of an epoch.
    pub(crate) fn append(
        &mut self,
        epoch: i64,
        name: &str,
        (value, keep_until): (Option<&str>, Micros),
        is_record: bool,
    ) -> Result<(), QueryError> {
        let values = params![name.as_bytes(), value, integer(keep_until), is_record];
        of_epoch(&mut self.append, epoch).execute(values)?;
        Ok(())
    }

    /// Writes a value to its table, or deletes it there.
    pub(crate) fn write_to_table(
        &mut self,
        key: &[u8],
        value: &LoggedValue,
    ) -> Result<(), QueryError> {
        match (&value.text, value.is_record) {
            (Some(text), false) => self.write.execute(params![key, text, value.expires]),
            (Some(text), true) => self.write_record.execute(params![key, text, value.expires]),
            (None, false) => self.delete.execute([key]),
            (None, true) => self.delete_record.execute([key]),
        }?;
        Ok(())
    }

    pub(crate) fn empty_log(&mut self, epoch: i64) -> Result<(), QueryError> {
        of_epoch(&mut self.empty, epoch).execute([])?;
        Ok(())
    }

    pub(crate) fn set_progress(&mut self, progress: &LogProgress) -> Result<(), QueryError> {
        self.set_progress.execute(params![progress.epoch, progress.compacted])?;
        Ok(())
    }

    /// Deletes a request id from its table. Returns whether there was one.
    pub(crate) fn delete_record(&mut self, name: &str) -> Result<bool, QueryError> {
        Ok(self.delete_record.execute([name.as_bytes()])? > 0)
    }

    /// Deletes at most `max` request ids that expired before `now`. Returns how many.
    pub(crate) fn reclaim_records(&mut self, now: Micros, max: u64) -> Result<u64, QueryError> {
        let deleted = self.reclaim_records.execute([integer(now), integer(max)])?;
        Ok(u64::try_from(deleted).unwrap_or(u64::MAX))
    }

    /// Deletes request ids in the tables that have not expired. Returns how many.
    pub(crate) fn forget(&mut self, forget: &Forget) -> Result<u64, QueryError> {
        let count = i64::try_from(forget.count).unwrap_or(i64::MAX);
        let deleted = if forget.names_begin_with.is_empty() {
            self.forget.execute(params![SETTLED, count])?
        } else {
            let from = forget.names_begin_with.as_bytes();
            // No text has a byte of this value.
            let to = [from, &[0xFF]].concat();
            self.forget_some.execute(params![SETTLED, count, from, to])?
        };
        Ok(u64::try_from(deleted).unwrap_or(u64::MAX))
    }

    /// The number of request ids.
    pub(crate) fn request_ids(&mut self) -> Result<u64, QueryError> {
        let number: i64 = self.request_ids.query_row([], |row| row.get(0))?;
        Ok(u64::try_from(number).unwrap_or_default())
    }

    pub(crate) fn set_request_ids(&mut self, ids: u64) -> Result<(), QueryError> {
        self.set_request_ids.execute([integer(ids)])?;
        Ok(())
    }
}

/// A number as SQLite stores it. Every instant that decides is far below the maximum.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
