//! Classifies errors of SQLite: contention with other processes, an outage, a full disk, or a
//! mistake in the configuration.
//!
//! Only an outage may reach an outage mode that admits. Contention and a full disk are not outages,
//! because an attacker can cause them. Missing tables or permissions are not outages either: every
//! request would then be admitted. Messages carry the result code of SQLite and its standard text,
//! never a value.
//!
//! SQLite reports a full disk as such only when the operating system says ENOSPC. A file at the
//! limit of the shell (`ulimit -f`, EFBIG), a quota (EDQUOT), and a thin or remote volume without
//! room (often EIO) are I/O errors of a write to it, and it does not say which. So a write that
//! fails means that there is no room, whatever the cause; a read that fails is an outage.

use rusqlite::ErrorCode;
use rusqlite::ffi::{self, code_to_str};
use tollgate_core::{Code, Error};

/// Why a statement or a transaction failed.
#[derive(Debug)]
pub(crate) enum QueryError {
    /// Another process or connection holds the lock.
    Busy,
    /// Anything else.
    Failed(Error),
}

impl QueryError {
    /// The error for callers, when nothing is retried.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Busy => conflict_exhausted(),
            Self::Failed(error) => error,
        }
    }
}

impl From<rusqlite::Error> for QueryError {
    fn from(error: rusqlite::Error) -> Self {
        let Some(failure) = error.sqlite_error() else {
            // A column has another type than this store writes.
            return Self::Failed(corrupt());
        };
        if matches!(failure.code, ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) {
            return Self::Busy;
        }
        let (number, text) = (failure.extended_code, code_to_str(failure.extended_code));
        let message = format!("SQLite reported {number}: {text}");
        Self::Failed(match code_of(*failure) {
            Code::StoreFull => no_room(number, &message),
            code => Error::new(code, message),
        })
    }
}

impl From<Error> for QueryError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

fn code_of(failure: ffi::Error) -> Code {
    match failure.code {
        // No free space on the disk, or the bound of the file.
        ErrorCode::DiskFull => Code::StoreFull,
        ErrorCode::SystemIoFailure if is_write(failure.extended_code) => Code::StoreFull,
        // The disk, memory, an interruption.
        ErrorCode::SystemIoFailure
        | ErrorCode::OutOfMemory
        | ErrorCode::CannotOpen
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::OperationInterrupted
        | ErrorCode::OperationAborted => Code::StoreUnavailable,
        // The file is damaged or not a database.
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Code::CorruptState,
        // No permission, no such table, and any other mistake of the configuration.
        _ => Code::ConfigInvalid,
    }
}

/// Whether an I/O error is that of a write, to the file, its log or the index of its log.
const fn is_write(extended_code: i32) -> bool {
    matches!(
        extended_code,
        ffi::SQLITE_IOERR_WRITE
            | ffi::SQLITE_IOERR_FSYNC
            | ffi::SQLITE_IOERR_DIR_FSYNC
            | ffi::SQLITE_IOERR_TRUNCATE
            | ffi::SQLITE_IOERR_SHMSIZE
    )
}

/// Without room the mark of a commit is not written: nothing was charged. When a write could not be
/// made durable, it may have been written.
fn no_room(extended_code: i32, reported: &str) -> Error {
    let message =
        format!("the file cannot be written; it needs free space, quota and ulimit -f; {reported}");
    let error = Error::new(Code::StoreFull, message);
    let is_synced = !matches!(extended_code, ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC);
    if is_synced { error.not_sent() } else { error }
}

/// Other processes held the write lock for too long. Nothing was charged.
pub(crate) fn conflict_exhausted() -> Error {
    let message = "other processes held the write lock for too long; nothing was charged";
    Error::new(Code::ConflictExhausted, message).not_sent()
}

fn corrupt() -> Error {
    Error::new(Code::CorruptState, "a stored value cannot be read; reset the key to clear it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_cannot_answer_is_an_outage() {
        use rusqlite::ffi;
        let error = |number| match QueryError::from(rusqlite::Error::SqliteFailure(
            ffi::Error::new(number),
            None,
        )) {
            QueryError::Busy => None,
            QueryError::Failed(error) => Some(error),
        };
        let code = |number| error(number).map(|error| error.code());
        for number in [ffi::SQLITE_IOERR, ffi::SQLITE_IOERR_READ, ffi::SQLITE_CANTOPEN] {
            assert_eq!(code(number), Some(Code::StoreUnavailable), "{number}");
        }
        for (number, is_not_sent) in [
            (ffi::SQLITE_FULL, true),
            (ffi::SQLITE_IOERR_WRITE, true),
            (ffi::SQLITE_IOERR_SHMSIZE, true),
            (ffi::SQLITE_IOERR_FSYNC, false),
        ] {
            let error = error(number).unwrap();
            assert_eq!((error.code(), error.is_not_sent()), (Code::StoreFull, is_not_sent));
        }
        for number in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB] {
            assert_eq!(code(number), Some(Code::CorruptState), "{number}");
        }
        for number in [ffi::SQLITE_READONLY, ffi::SQLITE_PERM, ffi::SQLITE_ERROR] {
            assert_eq!(code(number), Some(Code::ConfigInvalid), "{number}");
        }
        for number in [ffi::SQLITE_BUSY, ffi::SQLITE_BUSY_SNAPSHOT, ffi::SQLITE_LOCKED] {
            assert_eq!(code(number), None, "{number}");
        }
    }
}
