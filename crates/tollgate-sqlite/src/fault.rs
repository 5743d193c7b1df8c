//! What an error of SQLite means: others are writing, an outage, or a mistake of the set-up.
//!
//! Only an outage may reach a failure mode that admits. Contention is never one, because an attacker
//! can cause it; neither are missing tables or permissions, because then nothing would ever be limited.
//! Messages carry the code of SQLite and its standard text, never a value.

use rusqlite::ErrorCode;
use rusqlite::ffi::code_to_str;
use tollgate_core::{Code, Error};

/// Why something did not come to its end.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Another process or connection holds what is needed.
    Busy,
    /// It failed.
    Failed(Error),
}

impl Fault {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Busy => exhausted(),
            Self::Failed(error) => error,
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        let Some(failure) = error.sqlite_error() else {
            // A column of another type than this store writes, or the like.
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

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

fn code_of(code: ErrorCode) -> Code {
    match code {
        // The disk, its space, memory, an interruption: the file cannot answer.
        ErrorCode::SystemIoFailure
        | ErrorCode::DiskFull
        | ErrorCode::OutOfMemory
        | ErrorCode::CannotOpen
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::OperationInterrupted
        | ErrorCode::OperationAborted => Code::StoreUnavailable,
        // The file is damaged, or no database.
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Code::CorruptState,
        // No permission, no such table, and whatever else was set up otherwise than the store needs it.
        _ => Code::ConfigInvalid,
    }
}

/// Others kept writing: nothing was charged.
pub(crate) fn exhausted() -> Error {
    let message = "other processes kept the file busy; nothing was charged";
    Error::new(Code::ConflictExhausted, message).not_sent()
}

pub(crate) fn closed() -> Error {
    Error::new(Code::StoreUnavailable, "the store was closed").not_sent()
}

/// The thread that decides ended in the middle of a round.
pub(crate) fn lost() -> Error {
    Error::new(Code::StoreUnavailable, "the writer went away; the charge may be spent")
}

pub(crate) fn corrupt() -> Error {
    Error::new(
        Code::CorruptState,
        "a stored value cannot be read; reset the key to start it afresh",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_cannot_answer_is_an_outage() {
        use rusqlite::ffi;
        let code = |number| match Fault::from(rusqlite::Error::SqliteFailure(
            ffi::Error::new(number),
            None,
        )) {
            Fault::Busy => None,
            Fault::Failed(error) => Some(error.code()),
        };
        for number in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_FULL, ffi::SQLITE_CANTOPEN] {
            assert_eq!(code(number), Some(Code::StoreUnavailable), "{number}");
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
