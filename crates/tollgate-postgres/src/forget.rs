//! Deletes request ids before they expire, to make room for new ones.
//!
//! A round that has written more ids than there was room for names the older ones that are to go. A
//! task deletes them on a connection of its own: the round does not wait for a search of the oldest
//! rows. They count no more from the round on, so they are asked for once. Rows of settlements
//! stay, and rows that are locked. If it fails, the table is larger than its bound until the next
//! sweep has counted it.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};
use tokio_postgres::types::{ToSql, Type};
use tollgate_core::Result;
use tollgate_core::store::round::Forget;

use crate::connection::{Shared, within};
use crate::error::QueryError;
use crate::rows::without_nul;
use crate::sql::int8;

/// Groups of ids that wait to be deleted; further ones wait for a later round to ask again.
const WAITING_MAX: usize = 1_000;
/// Behind every text of the same beginning.
const LAST: char = char::MAX;

/// Request ids that are to be deleted.
#[derive(Debug, Default)]
pub(crate) struct Forgetting {
    waiting: Mutex<HashMap<String, usize>>,
    added: Notify,
    forgotten: AtomicU64,
}

impl Forgetting {
    /// How many request ids were deleted.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten.load(Relaxed)
    }

    /// Adds what a round has named. Returns how many ids that are.
    pub(crate) fn add(&self, all: &[Forget]) -> usize {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sum = 0;
        for Forget { names_begin_with, count, .. } in all {
            if waiting.len() < WAITING_MAX || waiting.contains_key(names_begin_with) {
                *waiting.entry(names_begin_with.clone()).or_default() += count;
                sum += count;
            }
        }
        if sum > 0 {
            self.added.notify_one();
        }
        sum
    }

    fn take(&self) -> HashMap<String, usize> {
        core::mem::take(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Deletes until the store is closed or dropped.
pub(crate) async fn run(shared: Arc<Shared>, mut closing: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            biased;
            // An error means that the store was dropped.
            _ = closing.changed() => return,
            () = shared.forgetting.added.notified() => {}
        }
        tokio::select! {
            biased;
            _ = closing.changed() => return,
            _ = forget(&shared) => {}
        }
    }
}

/// Deletes what waits.
async fn forget(shared: &Shared) -> Result<()> {
    let waiting = shared.forgetting.take();
    if waiting.is_empty() {
        return Ok(());
    }
    let connection = shared.connect().await?;
    for (from, count) in waiting {
        let from = without_nul(&from).into_owned();
        let to = format!("{from}{LAST}");
        let count = int8(u64::try_from(count).unwrap_or(u64::MAX));
        let parameters: [(&(dyn ToSql + Sync), Type); 3] =
            [(&from, Type::TEXT), (&to, Type::TEXT), (&count, Type::INT8)];
        let query = async {
            Ok::<_, QueryError>(
                connection.client.execute_typed(&shared.sql.forget, &parameters).await?,
            )
        };
        let deleted = within(shared.config.operation_timeout, query).await?;
        shared.forgetting.forgotten.fetch_add(deleted, Relaxed);
    }
    Ok(())
}
