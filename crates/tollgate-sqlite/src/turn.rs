//! Turns between processes that write to one file.
//!
//! The write lock of SQLite goes to whoever asks while it is free. A busy process asks right after it
//! has committed, others ask every millisecond or so: they would starve. So whoever wants the write lock
//! first takes the lock of a file beside the database, and gives it back once it has the write lock. While
//! one process waits for its turn at the write lock, the one that has it cannot come back before.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use tollgate_core::{Code, Error};

use crate::fault::Fault;

/// The file that turns are taken by.
#[derive(Debug)]
pub(crate) struct Turn(File);

/// A turn that was taken; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Taken<'a>(&'a File);

impl Turn {
    pub(crate) fn open(path: &Path) -> Result<Self, Fault> {
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(path);
        Ok(Self(opened.map_err(|error| failed(&error))?))
    }

    /// Takes the turn; busy while somebody else has it.
    pub(crate) fn take(&self) -> Result<Taken<'_>, Fault> {
        match self.0.try_lock() {
            Ok(()) => Ok(Taken(&self.0)),
            Err(TryLockError::WouldBlock) => Err(Fault::Busy),
            Err(TryLockError::Error(error)) => Err(failed(&error)),
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // Whatever goes wrong, the lock ends with the process.
        let _ = self.0.unlock();
    }
}

fn failed(error: &std::io::Error) -> Fault {
    let message = format!("the file beside the database cannot be locked: {}", error.kind());
    Fault::Failed(Error::new(Code::StoreUnavailable, message))
}
