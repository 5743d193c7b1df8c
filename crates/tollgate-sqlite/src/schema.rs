//! Creates and migrates the tables.
//!
//! The version of the schema is stored in `tollgate_meta`. Processes that start at the same time
//! wait for each other at the write lock. Limits have no index on their expiry, because every
//! compaction would have to update it. Request ids are written once and about in the order of their
//! expiry, so their index is cheap. Their rows are large and stored in the order of insertion, so
//! that new ones share a page. The logs are appended in order as well.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use tollgate_core::{Code, Error};

use crate::error::QueryError;

/// The version that this code needs.
const VERSION: i64 = 1;

const FIRST: &str = "
    CREATE TABLE tollgate_limits (key BLOB PRIMARY KEY, value TEXT NOT NULL,
        expires INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE tollgate_once (number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE,
        value TEXT NOT NULL, expires INTEGER NOT NULL) STRICT;
    CREATE INDEX tollgate_once_expires ON tollgate_once (expires);
    CREATE TABLE tollgate_meta (name TEXT PRIMARY KEY, number INTEGER NOT NULL)
        STRICT, WITHOUT ROWID;
    INSERT INTO tollgate_meta VALUES ('version', 1), ('request_ids', 0);
    CREATE TABLE tollgate_log_0 (number INTEGER PRIMARY KEY, key BLOB NOT NULL, value TEXT,
        expires INTEGER NOT NULL, is_record INTEGER NOT NULL) STRICT;
    CREATE TABLE tollgate_log_1 (number INTEGER PRIMARY KEY, key BLOB NOT NULL, value TEXT,
        expires INTEGER NOT NULL, is_record INTEGER NOT NULL) STRICT;
    CREATE TABLE tollgate_stage (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL,
        after BLOB) STRICT;
    INSERT INTO tollgate_stage VALUES (1, 0, NULL);
";

/// Checks the tables. Creates or migrates them if needed and allowed.
pub(crate) fn ensure(connection: &mut Connection, migrates: bool) -> Result<(), QueryError> {
    match version(connection)? {
        VERSION => Ok(()),
        newer if newer > VERSION => Err(too_new(newer).into()),
        _ if migrates => migrate(connection),
        older => Err(too_old(older).into()),
    }
}

/// Creates or migrates the tables.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), QueryError> {
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
    // Another process may have migrated them before this one got the lock.
    let found = version(&transaction)?;
    if found > VERSION {
        return Err(too_new(found).into());
    }
    if found < 1 {
        transaction.execute_batch(FIRST)?;
    }
    Ok(transaction.commit()?)
}

/// The version of the schema; 0 without tables.
fn version(connection: &Connection) -> Result<i64, QueryError> {
    let exists = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'tollgate_meta'";
    if connection.query_row(exists, [], |_| Ok(())).optional()?.is_none() {
        return Ok(0);
    }
    let version = "SELECT number FROM tollgate_meta WHERE name = 'version'";
    Ok(connection.query_row(version, [], |row| row.get(0))?)
}

fn too_new(found: i64) -> Error {
    let message =
        format!("the tables have version {found}; this program supports up to version {VERSION}");
    Error::new(Code::ConfigInvalid, message).with_field("path")
}

fn too_old(found: i64) -> Error {
    let message =
        format!("the tables have version {found}; this program needs version {VERSION}: migrate");
    Error::new(Code::ConfigInvalid, message).with_field("path")
}
