//! Opens the database file.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use tollgate_core::{Error, SystemClock};

use crate::backoff::retry_while_busy;
use crate::config::{Config, Durability};
use crate::error::QueryError;
use crate::{round, schema, wal};

/// Bounds the creation of the tables, which may have to wait for other processes.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// The page cache of the writer; a negative number is in KiB.
const CACHE_KIB: i64 = -32 * 1_024;

/// The database file of one store.
#[derive(Debug)]
pub(crate) struct DatabaseFile {
    config: Config,
    clock: SystemClock,
    /// Whether the tables were created or checked.
    is_checked: Mutex<bool>,
    /// Commits that SQLite ignored when the file was opened first.
    lost_commits: AtomicU64,
    /// Request ids that were deleted before they expired.
    forgotten_ids: AtomicU64,
}

impl DatabaseFile {
    pub(crate) fn new(config: Config, clock: SystemClock) -> Self {
        let (lost_commits, forgotten_ids) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { config, clock, is_checked: Mutex::new(false), lost_commits, forgotten_ids }
    }

    /// Opens the file for writing. The first time also creates or checks the tables.
    pub(crate) fn open_to_write(&self) -> Result<Connection, QueryError> {
        let mut is_checked = self.is_checked.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_checked {
            // The last connection that is closed locks the file for a moment.
            return retry_while_busy(&self.clock, self.config.lock_timeout, || {
                let connection = connect(&self.config)?;
                configure_writer(&self.config, &connection)?;
                Ok(connection)
            });
        }
        let (connection, lost) = open_and_check(&self.config, &self.clock)?;
        self.lost_commits.store(lost, Relaxed);
        *is_checked = true;
        Ok(connection)
    }

    /// Commits that SQLite ignored when the file was opened first, because its write-ahead log did
    /// not verify.
    pub(crate) fn lost_commits(&self) -> u64 {
        self.lost_commits.load(Relaxed)
    }

    /// Request ids that were deleted before they expired.
    pub(crate) fn forgotten_ids(&self) -> u64 {
        self.forgotten_ids.load(Relaxed)
    }

    /// Counts request ids that were deleted before they expired.
    pub(crate) fn note_forgotten_ids(&self, count: u64) {
        self.forgotten_ids.fetch_add(count, Relaxed);
    }

    /// Opens the file for reading.
    pub(crate) fn open_to_read(&self) -> Result<Connection, QueryError> {
        if !*self.is_checked.lock().unwrap_or_else(PoisonError::into_inner) {
            self.open_to_write()?;
        }
        let connection = connect(&self.config)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }
}

/// Opens the file, and creates or migrates the tables.
pub(crate) fn migrate(config: &Config, clock: &SystemClock) -> Result<(), QueryError> {
    config.check_path()?;
    open_and_check(&config.clone().migrates(true), clock).map(drop)
}

/// The connection, and how many commits were lost.
fn open_and_check(config: &Config, clock: &SystemClock) -> Result<(Connection, u64), QueryError> {
    retry_while_busy(clock, OPEN_TIMEOUT, || {
        let mut connection = connect(config).map_err(unusable)?;
        configure_writer(config, &connection)?;
        let lost = verify_log(config, &connection);
        schema::ensure(&mut connection, config.migrates)?;
        Ok((connection, lost))
    })
}

/// Counts the commits that SQLite ignored, before anything is written over them.
fn verify_log(config: &Config, connection: &Connection) -> u64 {
    // A process that writes at the moment has verified the log. Other errors return with the first
    // write.
    if round::begin(connection).is_err() {
        return 0;
    }
    let lost = wal::lost_commits(&config.wal_path());
    round::roll_back(connection);
    lost
}

fn connect(config: &Config) -> Result<Connection, rusqlite::Error> {
    // Without `SQLITE_OPEN_URI`, a path that looks like a URI is a path. Each connection is used by
    // one thread.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&config.path, flags)?;
    // The store itself waits for locks: with jitter, and within the lock timeout.
    connection.busy_timeout(Duration::ZERO)?;
    Ok(connection)
}

fn configure_writer(config: &Config, connection: &Connection) -> Result<(), QueryError> {
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        let message = "does not support a write-ahead log; accepted: a file on a local disk";
        return Err(Error::config("path", message).into());
    }
    let synchronous = match config.durability {
        Durability::Full => "full",
        Durability::Relaxed => "normal",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    if let Some(bytes) = config.max_bytes {
        let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        connection.pragma_update(None, "max_page_count", bytes / page.max(1))?;
    }
    Ok(connection.pragma_update(None, "cache_size", CACHE_KIB)?)
}

/// A file that cannot be opened the first time is a mistake of the configuration.
fn unusable(error: rusqlite::Error) -> QueryError {
    if error.sqlite_error_code() != Some(ErrorCode::CannotOpen) {
        return error.into();
    }
    let message = "cannot be opened; accepted: a file in an existing folder, with permission to \
                   write to both";
    Error::config("path", message).into()
}
