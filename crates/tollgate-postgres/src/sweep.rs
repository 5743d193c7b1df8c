//! Deletes expired rows: states that mean the same as none, and expired request ids.
//!
//! A row is deleted only after the slack has passed, and only if no transaction has locked it. The
//! table is scanned in pages of bounded size in physical order: an index on the expiry would have
//! to be updated by every decision. After each page the sweep sleeps at least as long as the page
//! took, so that it uses at most half of the time of one connection. An advisory lock, taken for
//! each page, makes one process sweep at a time.

use core::time::Duration;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage};
use tollgate_core::Result;

use crate::audit;
use crate::connection::{Connection, Shared, within};
use crate::error::QueryError;
use crate::sql::{BEGIN, CLOCK, int8};

const LOCK: &str = "sweep";
/// Blocks of 8 KiB in one page: a few thousand rows, some milliseconds.
const PAGE_BLOCKS: i64 = 32;
/// Bounds one page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a sweep is at least this many times the duration of the sweep.
const PAUSE_FACTOR: u32 = 2;

/// Sweeps until the store is closed or dropped.
pub(crate) async fn run(
    shared: Arc<Shared>,
    interval: Duration,
    mut closing: watch::Receiver<bool>,
) {
    let mut pause = interval;
    loop {
        tokio::select! {
            biased;
            // An error means that the store was dropped.
            _ = closing.changed() => return,
            () = sleep(pause) => {}
        }
        let start = Instant::now();
        tokio::select! {
            biased;
            _ = closing.changed() => return,
            // The next sweep does what this one could not.
            _ = sweep(&shared) => {}
        }
        pause = interval.max(start.elapsed().saturating_mul(PAUSE_FACTOR));
    }
}

/// One sweep over both tables. Returns how many rows were deleted.
pub(crate) async fn sweep(shared: &Shared) -> Result<u64> {
    let connection = shared.connect().await?;
    if shared.config.audit.is_some() {
        within(PAGE_TIMEOUT, audit::rotate_partitions(shared, &connection.client)).await?;
    }
    let states = sweep_table(&connection, shared, &shared.names.states).await?;
    let records = sweep_table(&connection, shared, &shared.names.records).await?;
    if shared.request_ids.is_bounded() {
        within(PAGE_TIMEOUT, count_request_ids(shared, &connection.client)).await?;
    }
    Ok(states.saturating_add(records))
}

/// Counts the request ids of all processes.
async fn count_request_ids(shared: &Shared, client: &Client) -> Result<(), QueryError> {
    let max = int8(shared.request_ids.max());
    let row = client.query_typed_one(&shared.sql.count_records_now, &[(&max, Type::INT8)]).await?;
    let number = |column: usize| -> Result<u64, QueryError> {
        Ok(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or_default())
    };
    shared.request_ids.set(number(0)?, number(1)?);
    Ok(())
}

/// Deletes expired rows page by page.
async fn sweep_table(connection: &Connection, shared: &Shared, table: &str) -> Result<u64> {
    let blocks = within(PAGE_TIMEOUT, blocks_of(&connection.client, table)).await?;
    let mut sum = 0_u64;
    let mut first = 0;
    while first < blocks {
        let start = Instant::now();
        let end = first.saturating_add(PAGE_BLOCKS);
        let statement = page(shared, table, (first, end));
        let query = async { Ok(connection.client.simple_query(&statement).await?) };
        let messages = within(PAGE_TIMEOUT, query).await?;
        sum = sum.saturating_add(deleted(&messages));
        first = end;
        sleep(start.elapsed()).await;
    }
    Ok(sum)
}

async fn blocks_of(client: &Client, table: &str) -> Result<i64, QueryError> {
    let query = "SELECT pg_relation_size(to_regclass($1)) / current_setting('block_size')::int8";
    let row = client.query_typed_one(query, &[(&table, Type::TEXT)]).await?;
    Ok(row.try_get(0)?)
}

/// One transaction over one page. A crash that loses it does no harm, so it does not wait for the
/// disk.
fn page(shared: &Shared, table: &str, (first, end): (i64, i64)) -> String {
    let lock = shared.names.lock_number(LOCK);
    format!(
        "{BEGIN}; SET LOCAL synchronous_commit = off; \
         DELETE FROM {table} WHERE expires < {CLOCK} AND ctid = ANY(ARRAY(\
         SELECT ctid FROM {table} WHERE ctid >= '({first},0)'::tid AND ctid < '({end},0)'::tid \
         AND expires < {CLOCK} AND (SELECT pg_try_advisory_xact_lock({lock})) \
         FOR UPDATE SKIP LOCKED)); COMMIT"
    )
}

/// The number of rows that a page deleted. No other statement of the page affects rows.
fn deleted(messages: &[SimpleQueryMessage]) -> u64 {
    messages.iter().fold(0, |sum, message| match message {
        SimpleQueryMessage::CommandComplete(rows) => sum.saturating_add(*rows),
        _ => sum,
    })
}
