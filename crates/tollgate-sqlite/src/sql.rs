//! Every statement of the decision path, prepared once per connection.
//!
//! Keys are blobs: any text is a key, also one with a NUL, and they are compared byte by byte.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Statement, params};
use tollgate_core::Micros;
use tollgate_core::store::round::ValueName;

use crate::fault::Fault;

/// Reads a value.
const READ: &str = "SELECT value FROM tollgate_limits WHERE key = ?1";
const READ_ONCE: &str = "SELECT value FROM tollgate_once WHERE key = ?1";
/// Writes a value.
const WRITE: &str = "INSERT INTO tollgate_limits (key, value, expires) VALUES (?1, ?2, ?3) \
     ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires";
const WRITE_ONCE: &str = "INSERT INTO tollgate_once (key, value, expires) VALUES (?1, ?2, ?3) \
     ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires";
const DELETE: &str = "DELETE FROM tollgate_limits WHERE key = ?1";
/// Forgets the request ids that expired first, a bounded number of them.
const RECLAIM_ONCE: &str = "DELETE FROM tollgate_once WHERE key IN \
     (SELECT key FROM tollgate_once WHERE expires <= ?1 ORDER BY expires LIMIT ?2)";
/// How many request ids there are: counted in every transaction that changes their number.
const IDS: &str = "SELECT number FROM tollgate_meta WHERE name = 'request_ids'";
const SET_IDS: &str = "UPDATE tollgate_meta SET number = ?1 WHERE name = 'request_ids'";

/// The statements of a writer.
#[derive(Debug)]
pub(crate) struct Sql<'c> {
    read: Statement<'c>,
    read_once: Statement<'c>,
    write: Statement<'c>,
    write_once: Statement<'c>,
    delete: Statement<'c>,
    reclaim_once: Statement<'c>,
    ids: Statement<'c>,
    set_ids: Statement<'c>,
}

/// The statement that reads the value of a key.
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

impl<'c> Sql<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> Result<Self, Fault> {
        Ok(Self {
            read: look(connection)?,
            read_once: connection.prepare(READ_ONCE)?,
            write: connection.prepare(WRITE)?,
            write_once: connection.prepare(WRITE_ONCE)?,
            delete: connection.prepare(DELETE)?,
            reclaim_once: connection.prepare(RECLAIM_ONCE)?,
            ids: connection.prepare(IDS)?,
            set_ids: connection.prepare(SET_IDS)?,
        })
    }

    /// The value under a name, if there is one.
    pub(crate) fn read(&mut self, name: ValueName<'_>) -> Result<Option<String>, Fault> {
        let statement = if name.is_record { &mut self.read_once } else { &mut self.read };
        value_of(statement, name.text)
    }

    pub(crate) fn write(
        &mut self,
        name: ValueName<'_>,
        value: &str,
        keep_until: Micros,
    ) -> Result<(), Fault> {
        let statement = if name.is_record { &mut self.write_once } else { &mut self.write };
        statement.execute(params![name.text.as_bytes(), value, stored(keep_until)])?;
        Ok(())
    }

    /// Forgets a key.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<(), Fault> {
        self.delete.execute([key])?;
        Ok(())
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
