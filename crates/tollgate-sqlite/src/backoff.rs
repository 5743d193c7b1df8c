//! Waits between attempts to get a lock of another process.
//!
//! SQLite does not report when a lock becomes free, so it is polled.

use core::time::Duration;
use std::thread;

use tollgate_core::store::Backoff;
use tollgate_core::{Clock, SystemClock};

use crate::config::micros;
use crate::error::QueryError;

const BASE: Duration = Duration::from_micros(100);
/// About the duration of a commit on a fast disk. One attempt takes a few microseconds.
const MAX: Duration = Duration::from_millis(2);

/// The waits of one operation.
#[derive(Debug)]
pub(crate) struct LockBackoff(Backoff);

impl LockBackoff {
    pub(crate) fn new() -> Self {
        Self(Backoff::endless(BASE, MAX))
    }

    pub(crate) fn wait(&mut self) {
        // A spurious wakeup only makes the next attempt earlier.
        thread::park_timeout(self.0.next_wait().unwrap_or(MAX));
    }
}

/// Repeats an attempt while it is busy, for at most `limit`.
pub(crate) fn retry_while_busy<T>(
    clock: &SystemClock,
    limit: Duration,
    mut attempt: impl FnMut() -> Result<T, QueryError>,
) -> Result<T, QueryError> {
    let end = clock.now().saturating_add(micros(limit));
    let mut backoff = LockBackoff::new();
    loop {
        match attempt() {
            Err(QueryError::Busy) if clock.now() < end => backoff.wait(),
            result => return result,
        }
    }
}
