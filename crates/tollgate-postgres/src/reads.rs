//! Reads for peek and forecast, without locks, and resets: one more worker task. Its callers share
//! round trips, and it opens no transaction.

use core::iter::repeat_n;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use tollgate_core::combine::Worker;
use tollgate_core::{Code, Result};

use crate::connection::{Connection, Shared, bounded};
use crate::error::QueryError;
use crate::rows::ReadRows;

/// A call that waits for its answer.
#[derive(Debug)]
pub(crate) enum ReadJob {
    /// Reads the states of these keys.
    Read(Vec<String>),
    /// Deletes the state of this key.
    Reset(String),
}

/// The rows of all reads of a round; empty for a reset.
pub(crate) type ReadReply = Result<Arc<ReadRows>>;

/// Answers until the store is closed or dropped.
pub(crate) async fn run(shared: Arc<Shared>, worker: Worker<ReadJob, ReadReply>) {
    let mut connection = None;
    while let Some(mut round) = worker.next_round().await {
        round.mark_sent();
        let (mut reads, mut resets) = (Vec::new(), Vec::new());
        for job in round.jobs() {
            match job {
                ReadJob::Read(keys) => reads.extend(keys.iter().map(String::as_str)),
                ReadJob::Reset(key) => resets.push(key.as_str()),
            }
        }
        let answered = async {
            reset(&shared, &mut connection, &resets).await?;
            read(&shared, &mut connection, &reads).await
        };
        match answered.await {
            Ok(rows) => round.finish(repeat_n(Ok(rows), round.len())),
            Err(error) => round.fail(&error),
        }
    }
}
async fn read(
    shared: &Shared,
    connection: &mut Option<Connection>,
    keys: &[&str],
) -> Result<Arc<ReadRows>> {
    if keys.is_empty() {
        return Ok(Arc::default());
    }
    let rows = query(shared, connection, &shared.sql.read, keys).await?;
    let read = rows.first().map(ReadRows::of).transpose().map_err(QueryError::into_error)?;
    Ok(Arc::new(read.unwrap_or_default()))
}

async fn reset(shared: &Shared, connection: &mut Option<Connection>, keys: &[&str]) -> Result<()> {
    if !keys.is_empty() {
        query(shared, connection, &shared.sql.reset, keys).await?;
    }
    Ok(())
}

/// Runs a statement. Both statements are idempotent: if an idle connection turns out to be closed,
/// the statement is repeated once over a new one.
async fn query(
    shared: &Shared,
    connection: &mut Option<Connection>,
    statement: &str,
    keys: &[&str],
) -> Result<Vec<Row>> {
    let parameters: [(&(dyn ToSql + Sync), Type); 1] = [(&keys, Type::TEXT_ARRAY)];
    let mut was_idle = connection.as_ref().is_some_and(Connection::is_open);
    loop {
        let current = match connection.take().filter(Connection::is_open) {
            Some(current) => current,
            None => shared.connect().await?,
        };
        shared.round_trips.fetch_add(1, Ordering::Relaxed);
        let begun = Instant::now();
        let rows = async { Ok(current.client.query_typed(statement, &parameters).await?) };
        match bounded(shared.config.operation_timeout, rows).await {
            Ok(rows) => {
                shared.note_answer(begun);
                *connection = Some(current);
                return Ok(rows);
            }
            Err(QueryError::ConnectionLost(error)) if was_idle && error.code() != Code::Timeout => {
                was_idle = false;
            }
            Err(error) => return Err(error.into_error()),
        }
    }
}
