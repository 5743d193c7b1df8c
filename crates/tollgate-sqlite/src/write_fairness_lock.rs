//! Fairness between processes that write to one file.
//!
//! SQLite's write lock is granted to the process that requests it while it is free. A busy process
//! requests it right after its commit; other processes poll it about every millisecond and would
//! starve. So a process first takes the lock of a second file, requests the write lock, and
//! releases the second file's lock once it has the write lock. A process that has just committed
//! cannot overtake the one that already holds the second file's lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

use tollgate_core::{Code, Error};

use crate::error::QueryError;

/// The second file.
#[derive(Debug)]
pub(crate) struct WriteFairnessLock(File);

/// The lock, held until it is dropped.
#[derive(Debug)]
pub(crate) struct FairnessGuard<'a>(&'a File);

impl WriteFairnessLock {
    pub(crate) fn open(path: &Path) -> Result<Self, QueryError> {
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(path);
        Ok(Self(opened.map_err(|error| failed(&error))?))
    }

    /// Takes the lock. Fails with `Busy` while another process holds it.
    pub(crate) fn try_lock(&self) -> Result<FairnessGuard<'_>, QueryError> {
        match self.0.try_lock() {
            Ok(()) => Ok(FairnessGuard(&self.0)),
            Err(TryLockError::WouldBlock) => Err(QueryError::Busy),
            Err(TryLockError::Error(error)) => Err(failed(&error)),
        }
    }
}

impl Drop for FairnessGuard<'_> {
    fn drop(&mut self) {
        // The operating system releases the lock when the process ends, in any case.
        let _ = self.0.unlock();
    }
}

fn failed(error: &std::io::Error) -> QueryError {
    let message = format!("the lock file beside the database cannot be used: {}", error.kind());
    let code = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Code::StoreFull,
        _ => Code::StoreUnavailable,
    };
    QueryError::Failed(Error::new(code, message))
}
