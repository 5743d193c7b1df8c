//! Every statement of the decision path, prepared once per connection.
//!
//! Keys are blobs: any text is a key, also one with a NUL, and they are compared byte by byte.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Statement, params};
use tollgate_core::Micros;

use crate::fault::Fault;
use crate::recent::{Stage, Value};

/// Reads a value from the tables.
const READ: &str = "SELECT value FROM tollgate_limits WHERE key = ?1";
const READ_ONCE: &str = "SELECT value FROM tollgate_once WHERE key = ?1";
/// Writes a value to the tables.
const WRITE: &str = "INSERT INTO tollgate_limits (key, value, expires) VALUES (?1, ?2, ?3) \
     ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires";
const WRITE_ONCE: &str = "INSERT INTO tollgate_once (key, value, expires) VALUES (?1, ?2, ?3) \
     ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires";
const DELETE: &str = "DELETE FROM tollgate_limits WHERE key = ?1";
const DELETE_ONCE: &str = "DELETE FROM tollgate_once WHERE key = ?1";
/// Forgets the request ids that expired first, a bounded number of them.
const RECLAIM_ONCE: &str = "DELETE FROM tollgate_once WHERE number IN \
     (SELECT number FROM tollgate_once WHERE expires <= ?1 ORDER BY expires LIMIT ?2)";
/// How many request ids there are: counted in every transaction that changes their number.
const IDS: &str = "SELECT number FROM tollgate_meta WHERE name = 'request_ids'";
const SET_IDS: &str = "UPDATE tollgate_meta SET number = ?1 WHERE name = 'request_ids'";
/// How far the logs are.
const STAGE: &str = "SELECT epoch, after FROM tollgate_stage";
const SET_STAGE: &str = "UPDATE tollgate_stage SET epoch = ?1, after = ?2";

/// The statements that read the logs.
#[derive(Debug)]
pub(crate) struct LogSql<'c> {
    stage: Statement<'c>,
    rows: [Statement<'c>; 2],
}

/// The statements of a writer.
#[derive(Debug)]
pub(crate) struct Sql<'c> {
    pub(crate) log: LogSql<'c>,
    append: [Statement<'c>; 2],
    empty: [Statement<'c>; 2],
    set_stage: Statement<'c>,
    read: Statement<'c>,
    read_once: Statement<'c>,
    write: Statement<'c>,
    write_once: Statement<'c>,
    delete: Statement<'c>,
    delete_once: Statement<'c>,
    reclaim_once: Statement<'c>,
    ids: Statement<'c>,
    set_ids: Statement<'c>,
}

/// The statement that reads the value of a key from the tables.
pub(crate) fn look(connection: &Connection) -> Result<Statement<'_>, Fault> {
    Ok(connection.prepare(READ)?)
}

/// The value that a reading statement finds under a name.
pub(crate) fn value_of(look: &mut Statement<'_>, name: &str) -> Result<Option<String>, Fault> {
    Ok(look.query_row([name.as_bytes()], |row| row.get_ref(0).map(text_of)).optional()?)
}

/// A damaged value concerns its own key alone: what is no text stays so, and is refused by its reader.
fn text_of(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

impl<'c> LogSql<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> Result<Self, Fault> {
        let rows = |number: u8| {
            connection.prepare(&format!(
                "SELECT number, key, value, expires, is_record FROM tollgate_log_{number} \
                 WHERE number > ?1 ORDER BY number"
            ))
        };
        Ok(Self { stage: connection.prepare(STAGE)?, rows: [rows(0)?, rows(1)?] })
    }

    /// How far the logs are.
    pub(crate) fn stage(&mut self) -> Result<Stage, Fault> {
        let stage = |row: &rusqlite::Row<'_>| Ok(Stage { epoch: row.get(0)?, after: row.get(1)? });
        Ok(self.stage.query_row([], stage)?)
    }

    /// What an epoch has written after a row, in order.
    pub(crate) fn each_after(
        &mut self,
        epoch: i64,
        row: i64,
        mut hear: impl FnMut(i64, Vec<u8>, Value),
    ) -> Result<(), Fault> {
        let mut rows = of_epoch(&mut self.rows, epoch).query([row])?;
        while let Some(row) = rows.next()? {
            let text = match row.get_ref(2)? {
                ValueRef::Null => None,
                value => Some(text_of(value)),
            };
            let (expires, is_record) = (row.get(3)?, row.get(4)?);
            hear(row.get(0)?, row.get(1)?, Value { text, expires, is_record, epoch });
        }
        Ok(())
    }
}

/// Epochs take turns.
fn of_epoch<T>([even, odd]: &mut [T; 2], epoch: i64) -> &mut T {
    if epoch & 1 == 0 { even } else { odd }
}

impl<'c> Sql<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> Result<Self, Fault> {
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
            set_stage: connection.prepare(SET_STAGE)?,
            read: look(connection)?,
            read_once: connection.prepare(READ_ONCE)?,
            write: connection.prepare(WRITE)?,
            write_once: connection.prepare(WRITE_ONCE)?,
            delete: connection.prepare(DELETE)?,
            delete_once: connection.prepare(DELETE_ONCE)?,
            reclaim_once: connection.prepare(RECLAIM_ONCE)?,
            ids: connection.prepare(IDS)?,
            set_ids: connection.prepare(SET_IDS)?,
        })
    }

    /// The value that the tables have under a name, if there is one.
    pub(crate) fn read(&mut self, name: &str, is_record: bool) -> Result<Option<String>, Fault> {
        value_of(if is_record { &mut self.read_once } else { &mut self.read }, name)
    }

    /// Appends a value to the log of an epoch.
    pub(crate) fn append(
        &mut self,
        epoch: i64,
        name: &str,
        (value, keep_until): (Option<&str>, Micros),
        is_record: bool,
    ) -> Result<(), Fault> {
        let values = params![name.as_bytes(), value, stored(keep_until), is_record];
        of_epoch(&mut self.append, epoch).execute(values)?;
        Ok(())
    }

    /// Writes a value to its table.
    pub(crate) fn settle(&mut self, key: &[u8], value: &Value) -> Result<(), Fault> {
        match (&value.text, value.is_record) {
            (Some(text), false) => self.write.execute(params![key, text, value.expires]),
            (Some(text), true) => self.write_once.execute(params![key, text, value.expires]),
            (None, false) => self.delete.execute([key]),
            (None, true) => self.delete_once.execute([key]),
        }?;
        Ok(())
    }

    pub(crate) fn empty_log(&mut self, epoch: i64) -> Result<(), Fault> {
        of_epoch(&mut self.empty, epoch).execute([])?;
        Ok(())
    }

    pub(crate) fn set_stage(&mut self, stage: &Stage) -> Result<(), Fault> {
        self.set_stage.execute(params![stage.epoch, stage.after])?;
        Ok(())
    }

    /// Forgets the request id that the tables have under a name; whether there was one.
    pub(crate) fn forget_once(&mut self, name: &str) -> Result<bool, Fault> {
        Ok(self.delete_once.execute([name.as_bytes()])? > 0)
    }

    /// Forgets at most `max` request ids that may be forgotten at `now`; how many went.
    pub(crate) fn reclaim_once(&mut self, now: Micros, max: u64) -> Result<u64, Fault> {
        let gone = self.reclaim_once.execute([stored(now), stored(max)])?;
        Ok(u64::try_from(gone).unwrap_or(u64::MAX))
    }

    /// How many request ids there are.
    pub(crate) fn ids(&mut self) -> Result<u64, Fault> {
        let number: i64 = self.ids.query_row([], |row| row.get(0))?;
        Ok(u64::try_from(number).unwrap_or_default())
    }

    pub(crate) fn set_ids(&mut self, ids: u64) -> Result<(), Fault> {
        self.set_ids.execute([stored(ids)])?;
        Ok(())
    }
}

/// A number as SQLite keeps it. All times that decide are far below its end.
pub(crate) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
