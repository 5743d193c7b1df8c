//! Opens the database as the store needs it.

use core::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use tollgate_core::{Error, SystemClock};

use crate::config::{Config, Durability};
use crate::fault::Fault;
use crate::pause::patiently;
use crate::schema;

/// Making tables may have to wait for others who do the same.
pub(crate) const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// The cache of the writer at most; a negative number counts KiB.
const CACHE_KIB: i64 = -32 * 1_024;

/// Opens the file for the first time, and makes or checks the tables.
pub(crate) fn first(config: &Config, clock: &SystemClock) -> Result<Connection, Fault> {
    config.check_path()?;
    patiently(clock, OPEN_TIMEOUT, || {
        let mut connection = connect(config).map_err(unusable)?;
        prepare(config, &connection)?;
        schema::ensure(&mut connection, config.migrates)?;
        Ok(connection)
    })
}

/// Opens the file, and makes or changes the tables.
pub(crate) fn migrate(config: &Config, clock: &SystemClock) -> Result<(), Fault> {
    first(&config.clone().migrates(true), clock).map(drop)
}

/// Opens the file again after it has failed.
pub(crate) fn again(config: &Config) -> Result<Connection, Fault> {
    let connection = connect(config)?;
    prepare(config, &connection)?;
    Ok(connection)
}

/// Opens the file to look at it.
pub(crate) fn to_read(config: &Config) -> Result<Connection, Fault> {
    let connection = connect(config)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn connect(config: &Config) -> Result<Connection, rusqlite::Error> {
    // No `SQLITE_OPEN_URI`: a path is a path. Each connection belongs to one thread.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&config.path, flags)?;
    // Waiting is done here: with jitter, and no longer than callers do.
    connection.busy_timeout(Duration::ZERO)?;
    Ok(connection)
}

/// What a connection that writes needs.
fn prepare(config: &Config, connection: &Connection) -> Result<(), Fault> {
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        let message = "is where SQLite has no write-ahead log; accepted: a file on a local disk";
        return Err(Error::config("path", message).into());
    }
    let synchronous = match config.durability {
        Durability::Full => "full",
        Durability::Relaxed => "normal",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    Ok(connection.pragma_update(None, "cache_size", CACHE_KIB)?)
}

/// A file that cannot be opened when the store starts is a mistake of the set-up.
fn unusable(error: rusqlite::Error) -> Fault {
    if error.sqlite_error_code() != Some(ErrorCode::CannotOpen) {
        return error.into();
    }
    let message = "cannot be opened; accepted: a file in a folder that exists, with permission to \
                   write to both";
    Error::config("path", message).into()
}
