//! The thread that reads for peek and forecast.
//!
//! Its connection cannot write. It sees the last commit and does not wait for the writer. Waiting
//! callers share one transaction.

use std::sync::Arc;

use rusqlite::Connection;
use tollgate_core::combine::{Round, Wakeup, Worker};
use tollgate_core::{Result, SystemClock};

use crate::backoff::retry_while_busy;
use crate::config::Config;
use crate::error::QueryError;
use crate::file::DatabaseFile;
use crate::log_index::SharedLogIndex;
use crate::sql::{LogSql, read_statement, value_of};

/// Keys to read.
pub(crate) type ReadJob = Vec<String>;
/// The value of each key.
pub(crate) type ReadReply = Result<Vec<Option<String>>>;

/// The thread.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) config: Config,
    pub(crate) clock: SystemClock,
    pub(crate) file: Arc<DatabaseFile>,
    pub(crate) worker: Worker<ReadJob, ReadReply>,
    pub(crate) index: SharedLogIndex,
}

impl Reader {
    /// Runs until the store is closed or dropped.
    pub(crate) fn run(self) {
        let mut connection = None;
        loop {
            match self.worker.next_round_blocking(None) {
                Wakeup::Round(round) => connection = self.answer(connection, round),
                Wakeup::Timeout => {}
                Wakeup::Closed => return,
            }
        }
    }

    /// Answers the callers. Returns the connection if it can still be used.
    fn answer(
        &self,
        connection: Option<Connection>,
        mut round: Round<ReadJob, ReadReply>,
    ) -> Option<Connection> {
        let opened = connection.map_or_else(|| self.file.open_to_read(), Ok);
        let read = opened.and_then(|connection| {
            let read = || self.read(&connection, round.jobs());
            let values = retry_while_busy(&self.clock, self.config.lock_timeout, read)?;
            Ok((connection, values))
        });
        match read {
            Ok((connection, values)) => {
                round.finish(values.into_iter().map(Ok));
                Some(connection)
            }
            Err(error) => {
                round.fail(&error.into_error().not_sent());
                None
            }
        }
    }

    /// Reads all keys in one transaction.
    fn read<'j>(
        &self,
        connection: &Connection,
        jobs: impl Iterator<Item = &'j ReadJob>,
    ) -> Result<Vec<Vec<Option<String>>>, QueryError> {
        let mut index = self.index.lock();
        let transaction = connection.unchecked_transaction()?;
        index.refresh(&mut LogSql::prepare(&transaction)?)?;
        let mut statement = read_statement(&transaction)?;
        let mut value = |key: &String| match index.value(key) {
            Some(value) => Ok(value.text.clone()),
            None => value_of(&mut statement, key),
        };
        let values = |keys: &ReadJob| keys.iter().map(&mut value).collect::<Result<_, _>>();
        jobs.map(values).collect()
    }
}
