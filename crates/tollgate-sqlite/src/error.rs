//! Classifies errors of SQLite: contention with other processes, an outage, a full disk, or a
//! mistake in the configuration.
//!
//! Only an outage may reach an outage mode that admits. Contention and a full disk are not outages,
//! because an attacker can cause them. Missing tables or permissions are not outages either: every
//! request would then be admitted. Messages carry the result code of SQLite and its standard text,
//! never a value.

use rusqlite::ErrorCode;
use rusqlite::ffi::code_to_str;
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
        Self::Failed(Error::new(code_of(failure.code), message))
    }
}

impl From<Error> for QueryError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

fn code_of(code: ErrorCode) -> Code {
    match code {
        // No free space on the disk, or the bound of the file.
        ErrorCode::DiskFull => Code::StoreFull,
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
        let code = |number| match QueryError::from(rusqlite::Error::SqliteFailure(
            ffi::Error::new(number),
            None,
        )) {
            QueryError::Busy => None,
            QueryError::Failed(error) => Some(error.code()),
        };
        for number in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_CANTOPEN] {
            assert_eq!(code(number), Some(Code::StoreUnavailable), "{number}");
        }
        assert_eq!(code(ffi::SQLITE_FULL), Some(Code::StoreFull));
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
