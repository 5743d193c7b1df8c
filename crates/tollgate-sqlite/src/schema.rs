//! The tables, and how they come to be: made and changed by the store itself.
//!
//! Steps are numbered and never change once released; the number of the last one that was done is kept
//! beside the tables. Whoever starts at the same time waits for the file. There is no index on the expiry
//! of limits, because then every fold would write it; request ids are written once, about in the order
//! in which they expire, so that one on theirs costs little. Their rows are large and lie in the order in
//! which they came, so that many that are new share a page; the logs are written in order as well.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use tollgate_core::{Code, Error};

use crate::fault::Fault;

/// The step that makes what this version of the code needs.
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

/// Makes the tables if they are not as needed and that is allowed, else checks them.
pub(crate) fn ensure(connection: &mut Connection, migrates: bool) -> Result<(), Fault> {
    match version(connection)? {
        VERSION => Ok(()),
        newer if newer > VERSION => Err(too_new(newer).into()),
        _ if migrates => migrate(connection),
        older => Err(too_old(older).into()),
    }
}

/// Makes and changes the tables.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), Fault> {
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
    // Somebody else may have done it meanwhile.
    let found = version(&transaction)?;
    if found > VERSION {
        return Err(too_new(found).into());
    }
    if found < 1 {
        transaction.execute_batch(FIRST)?;
    }
    Ok(transaction.commit()?)
}

/// The last step that was done; 0 for none.
fn version(connection: &Connection) -> Result<i64, Fault> {
    let exists = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'tollgate_meta'";
    if connection.query_row(exists, [], |_| Ok(())).optional()?.is_none() {
        return Ok(0);
    }
    let version = "SELECT number FROM tollgate_meta WHERE name = 'version'";
    Ok(connection.query_row(version, [], |row| row.get(0))?)
}

fn too_new(found: i64) -> Error {
    let message = format!("the tables have version {found}, this program knows up to {VERSION}");
    Error::new(Code::ConfigInvalid, message).with_field("path")
}

fn too_old(found: i64) -> Error {
    let message = format!("the tables have version {found}, this program needs {VERSION}: migrate");
    Error::new(Code::ConfigInvalid, message).with_field("path")
}
