//! Reclaims the rows of keys that mean nothing any more, and request ids that have expired.
//!
//! A row is deleted only when it has been meaningless for the slack, and only if nobody holds it. The
//! table is read in pages of bounded size, in the order in which it lies on disk: there is no index
//! on the time of expiry, because that would make every decision write it. After each page the sweep
//! rests at least as long as the page took, so it takes at most half of one connection's time. One
//! process sweeps at a time; whether it does is decided anew for every page.

use core::time::Duration;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use tollgate_core::Result;

use crate::audit;
use crate::draft::stored;
use crate::fault::Fault;
use crate::link::{Link, Shared, within};
use crate::sql::{BEGIN, CLOCK};

const LOCK: &str = "sweep";
/// Blocks of 8 KiB that one page has: a few thousand rows, some milliseconds.
const PAGE_BLOCKS: i64 = 32;
/// A page that takes longer is given up.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// A sweep is followed by a rest of at least so many times its length.
const REST_FACTOR: u32 = 2;

/// Sweeps until the store is closed or dropped.
pub(crate) async fn work(shared: Arc<Shared>, every: Duration, mut closing: watch::Receiver<bool>) {
    let mut rest = every;
    loop {
        tokio::select! {
            biased;
            // An error means that the store was dropped.
            _ = closing.changed() => return,
            () = sleep(rest) => {}
        }
        let start = Instant::now();
        tokio::select! {
            biased;
            _ = closing.changed() => return,
            // What could not be done now is done next time.
            _ = sweep(&shared) => {}
        }
        rest = every.max(start.elapsed().saturating_mul(REST_FACTOR));
    }
}

/// One sweep over both tables; how many rows went.
pub(crate) async fn sweep(shared: &Shared) -> Result<u64> {
    let link = shared.connect().await?;
    let names = &shared.config.names;
    if shared.config.audit.is_some() {
        within(PAGE_TIMEOUT, audit::turn_pages(&shared.config, &link.client)).await?;
    }
    let states = sweep_table(&link, shared, &names.states, 0).await?;
    let once = sweep_table(&link, shared, &names.once, shared.config.slack).await?;
    within(PAGE_TIMEOUT, tally(shared, &link.client)).await?;
    Ok(states.saturating_add(once))
}

/// Learns how many request ids there are, those of other processes included.
async fn tally(shared: &Shared, client: &Client) -> Result<(), Fault> {
    let max = stored(shared.ids.max());
    let row = client.query_typed_one(&shared.sql.tally, &[(&max, Type::INT8)]).await?;
    let number = |column: usize| -> Result<u64, Fault> {
        Ok(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or_default())
    };
    shared.ids.counted(number(0)?, number(1)?);
    Ok(())
}

/// Deletes what expired more than `slack` ago, page by page.
async fn sweep_table(link: &Link, shared: &Shared, table: &str, slack: u64) -> Result<u64> {
    let blocks = within(PAGE_TIMEOUT, blocks_of(&link.client, table)).await?;
    let mut gone = 0_u64;
    let mut first = 0;
    while first < blocks {
        let start = Instant::now();
        let end = first.saturating_add(PAGE_BLOCKS);
        let statement = page(shared, table, (first, end), slack);
        let act = async { Ok(link.client.simple_query(&statement).await?) };
        let messages = within(PAGE_TIMEOUT, act).await?;
        gone = gone.saturating_add(deleted(&messages));
        first = end;
        sleep(start.elapsed()).await;
    }
    Ok(gone)
}

async fn blocks_of(client: &Client, table: &str) -> Result<i64, Fault> {
    let query = "SELECT pg_relation_size(to_regclass($1)) / current_setting('block_size')::int8";
    let row = client.query_typed_one(query, &[(&table, Type::TEXT)]).await?;
    Ok(row.try_get(0)?)
}

/// One transaction over one page. Losing it in a crash would cost nothing, so it waits for no disk.
fn page(shared: &Shared, table: &str, (first, end): (i64, i64), slack: u64) -> String {
    let lock = shared.config.names.lock_number(LOCK);
    format!(
        "{BEGIN}; SET LOCAL synchronous_commit = off; \
         DELETE FROM {table} WHERE expires < {CLOCK} - {slack} AND ctid = ANY(ARRAY(\
         SELECT ctid FROM {table} WHERE ctid >= '({first},0)'::tid AND ctid < '({end},0)'::tid \
         AND expires < {CLOCK} - {slack} AND (SELECT pg_try_advisory_xact_lock({lock})) \
         FOR UPDATE SKIP LOCKED)); COMMIT"
    )
}

/// The rows that the statements of a page deleted: nothing else in it touches any.
fn deleted(messages: &[tokio_postgres::SimpleQueryMessage]) -> u64 {
    messages.iter().fold(0, |sum, message| match message {
        tokio_postgres::SimpleQueryMessage::CommandComplete(rows) => sum.saturating_add(*rows),
        _ => sum,
    })
}
