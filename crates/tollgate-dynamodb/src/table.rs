//! The table as the compare-and-swap adapter uses it: reads, swaps, and the cache of written items.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use tollgate_core::store::cas::{Entry, Snapshot, Swap, Version, Versioned, VersionedCapability};
use tollgate_core::store::record;
use tollgate_core::{Error, Result};

use crate::client::LazyClient;
use crate::config::Config;
use crate::item::{self, Item};
use crate::version::VersionGenerator;
use crate::write::Written;
use crate::write_cache::{Cached, WriteCache};

/// The largest number of writes in one transaction.
const KEYS_PER_SWAP: u32 = 100;
/// An item may have 400 KB (409,600 bytes), including the key and the names of the attributes.
const MAX_STATE_BYTES: u32 = 400_000;
/// The key that [`Table::verify`] reads. It is the text of no key: every key contains `:`.
const PROBE_KEY: &str = "tollgate";

/// The table.
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) timeout: Duration,
    client: LazyClient,
    versions: VersionGenerator,
    cache: WriteCache,
}

impl Table {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            name: config.address.table.clone(),
            timeout: config.operation_timeout,
            versions: VersionGenerator::new(),
            cache: WriteCache::new(config.remembered_keys),
            client: LazyClient::new(config),
        }
    }

    pub(crate) async fn client(&self) -> Result<Arc<Client>> {
        self.client.get().await
    }

    /// Reads a key that does not exist.
    pub(crate) async fn verify(&self) -> Result<()> {
        self.get(&[PROBE_KEY]).await.map(drop)
    }

    /// Updates the cache after a swap. `before` was cached before it.
    fn record_swap(
        &self,
        writes: &[Swap<'_>],
        before: Vec<Option<Cached>>,
        written: &Written,
        version: &str,
    ) {
        for (index, (write, before)) in writes.iter().zip(before).enumerate() {
            match written {
                // The record of a request id is never written again.
                Written::All if record::is_name(write.key) => {}
                Written::All => {
                    let version = Version::Text(version.into());
                    let entry = Entry { text: write.value.to_owned(), version };
                    self.cache.record_write(write.key, before.as_ref(), write.expect, entry);
                }
                Written::Nothing(failed) => {
                    let own = failed.iter().find(|(at, _)| *at == index);
                    let cached = match own {
                        // The returned item was stale a second time: read after the back-off.
                        Some(_) if matches!(before, Some(Cached::Returned(_))) => {
                            Some(Cached::Unknown)
                        }
                        Some((_, item)) => Some(returned(item.as_ref())),
                        // The condition of another write failed: this item may still be valid.
                        None if !failed.is_empty() => before,
                        None => None,
                    };
                    if let Some(cached) = cached {
                        self.cache.put(write.key, cached);
                    }
                }
            }
        }
    }
}

/// The item that a failed condition returned.
fn returned(item: Option<&Item>) -> Cached {
    let entry = item.and_then(|item| item::entry_of(item.clone()).ok());
    entry.map_or(Cached::Unknown, Cached::Returned)
}

impl Versioned for Table {
    fn capability(&self) -> VersionedCapability {
        // A transaction costs twice as much as its writes alone.
        VersionedCapability::multi_key(KEYS_PER_SWAP)
            .with_max_state_bytes(MAX_STATE_BYTES)
            .without_joint_batches()
    }

    async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        check_runtime()?;
        let entries = self.get(keys).await?;
        for (key, entry) in keys.iter().zip(&entries) {
            self.cache.record_read(key, entry.as_ref());
        }
        Ok(Snapshot { entries, clock: None })
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        check_runtime()?;
        // Not cached until the outcome is known. If the caller is cancelled it stays that way.
        let before: Vec<Option<Cached>> =
            writes.iter().map(|write| self.cache.take(write.key)).collect();
        let version = self.versions.next();
        let written = self.write(writes, &version).await?;
        self.record_swap(writes, before, &written, &version);
        Ok(matches!(written, Written::All))
    }

    /// Answers from the cache. The record of a request id counts as missing unless it was found:
    /// most ids are sent once.
    fn recall(&self, keys: &[&str]) -> Option<Snapshot> {
        let entry = |key: &&str| match self.cache.get(key) {
            Some(cached) => cached.entry().cloned().map(Some),
            None if record::is_name(key) => Some(None),
            None => None,
        };
        let entries = keys.iter().map(entry).collect::<Option<Vec<_>>>()?;
        Some(Snapshot { entries, clock: None })
    }
}

/// The AWS SDK and tokio's timeouts panic outside of a tokio runtime.
pub(crate) fn check_runtime() -> Result<()> {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(Error::config("runtime", "is missing; use the store inside of a tokio runtime")
                .not_sent())
        }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("name", &self.name)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
