//! Reads without locks, for peek and forecast, and resets: one more worker, which shares round
//! trips in the same way and holds no transaction open.

use core::sync::atomic::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use tollgate_core::store::patience::Progress;
use tollgate_core::{Error, Micros, Result};

use crate::fault::Fault;
use crate::link::{Link, Shared};
use crate::round::states_of;
use crate::worker::ROUND_MAX;

/// The clock, and the state texts of the keys that have a row.
pub(crate) type Seen = Arc<(Micros, HashMap<String, String>)>;

/// What is asked.
#[derive(Debug)]
pub(crate) enum Ask {
    /// Read these keys.
    See(Vec<String>, oneshot::Sender<Result<Seen>>),
    /// Forget this key.
    Reset(String, oneshot::Sender<Result<()>>),
}

/// Answers until the store is closed or dropped.
pub(crate) async fn work(
    shared: Arc<Shared>,
    (mut asks, progress): (mpsc::Receiver<Ask>, Arc<Progress>),
    mut closing: watch::Receiver<bool>,
) {
    let mut link: Option<Link> = None;
    let mut waiting = Vec::with_capacity(ROUND_MAX);
    loop {
        let taken = tokio::select! {
            biased;
            _ = closing.changed(), if !asks.is_closed() => {
                asks.close();
                continue;
            }
            taken = asks.recv_many(&mut waiting, ROUND_MAX) => taken,
        };
        if taken == 0 {
            return;
        }
        let round = core::mem::replace(&mut waiting, Vec::with_capacity(ROUND_MAX));
        let (mut sees, mut resets) = (Vec::new(), Vec::new());
        for ask in round {
            match ask {
                Ask::See(keys, reply) => sees.push((keys, reply)),
                Ask::Reset(key, reply) => resets.push((key, reply)),
            }
        }
        let keys: Vec<&str> = resets.iter().map(|(key, _)| key.as_str()).collect();
        let done = reset(&shared, &mut link, &keys).await;
        for (_, reply) in resets {
            let _ = reply.send(done.as_ref().copied().map_err(Error::clone));
        }
        let keys: Vec<&str> = sees.iter().flat_map(|(keys, _)| keys).map(String::as_str).collect();
        let seen = see(&shared, &mut link, &keys).await;
        for (_, reply) in sees {
            let _ = reply.send(seen.as_ref().map(Arc::clone).map_err(Error::clone));
        }
        if seen.is_ok() && done.is_ok() {
            progress.round_ended();
        }
    }
}

async fn see(shared: &Shared, link: &mut Option<Link>, keys: &[&str]) -> Result<Seen> {
    if keys.is_empty() {
        return Ok(Seen::default());
    }
    let rows = ask(shared, link, &shared.sql.look, keys).await?;
    let seen = rows.first().map(states_of).transpose().map_err(Fault::into_error)?;
    Ok(Arc::new(seen.unwrap_or_default()))
}

async fn reset(shared: &Shared, link: &mut Option<Link>, keys: &[&str]) -> Result<()> {
    if !keys.is_empty() {
        ask(shared, link, &shared.sql.reset, keys).await?;
    }
    Ok(())
}

/// Runs a statement, and once more over a new connection if the kept one was lost: both statements
/// may be repeated.
async fn ask(
    shared: &Shared,
    link: &mut Option<Link>,
    statement: &str,
    keys: &[&str],
) -> Result<Vec<Row>> {
    let named: [(&(dyn ToSql + Sync), Type); 1] = [(&keys, Type::TEXT_ARRAY)];
    let mut was_kept = link.as_ref().is_some_and(Link::is_alive);
    loop {
        let current = match link.take().filter(Link::is_alive) {
            Some(current) => current,
            None => shared.connect().await?,
        };
        shared.trips.fetch_add(1, Ordering::Relaxed);
        let asked = current.client.query_typed(statement, &named);
        let fault = match timeout(shared.config.operation_timeout, asked).await {
            Ok(Ok(rows)) => {
                *link = Some(current);
                return Ok(rows);
            }
            Ok(Err(error)) => Fault::from(error),
            Err(_) => return Err(Fault::timeout().into_error()),
        };
        if !(was_kept && matches!(fault, Fault::Lost(_))) {
            return Err(fault.into_error());
        }
        was_kept = false;
    }
}
