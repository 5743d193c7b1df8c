//! What the compare-and-swap adapter asks: reads, swaps, and what is remembered between them.

use core::fmt;
use core::time::Duration;

use aws_sdk_dynamodb::Client;
use tollgate_core::store::cas::{Entry, Snapshot, Swap, Version, Versioned, VersionedCapability};
use tollgate_core::store::record;
use tollgate_core::{Error, Result};

use crate::item::{self, Item};
use crate::memory::{Known, Memory};
use crate::token::Tokens;
use crate::write::Written;

/// What one transaction may write.
const KEYS_PER_SWAP: u32 = 100;
/// An item may have 400 KB (409,600 bytes), with the key and the names of the attributes.
const MAX_STATE_BYTES: u32 = 400_000;

/// The table, and what this process knows about its items.
pub(crate) struct Table {
    pub(crate) client: Client,
    pub(crate) name: String,
    pub(crate) timeout: Duration,
    tokens: Tokens,
    memory: Memory,
}

impl Table {
    pub(crate) fn new(
        client: Client,
        name: String,
        timeout: Duration,
        remembered_keys: usize,
    ) -> Self {
        let memory = Memory::new(remembered_keys);
        Self { client, name, timeout, tokens: Tokens::new(), memory }
    }

    /// What is known after a swap, from what was known before it.
    fn settle(
        &self,
        writes: &[Swap<'_>],
        before: Vec<Option<Known>>,
        written: &Written,
        token: &str,
    ) {
        for (at, (write, before)) in writes.iter().zip(before).enumerate() {
            match written {
                // A record is written once.
                Written::All if record::is_name(write.key) => {}
                Written::All => {
                    let version = Version::Text(token.into());
                    let entry = Entry { text: write.value.to_owned(), version };
                    self.memory.wrote(write.key, before.as_ref(), write.expect, entry);
                }
                Written::Nothing(found) => {
                    let own = found.iter().find(|(index, _)| *index == at);
                    let known = match own {
                        // Told once and late again: others are faster. After a wait, a read will do.
                        Some(_) if matches!(before, Some(Known::Given(_))) => Some(Known::Unclear),
                        Some((_, item)) => Some(given(item.as_ref())),
                        // Another write of the transaction lost: this one may still be right.
                        None if !found.is_empty() => before,
                        None => None,
                    };
                    if let Some(known) = known {
                        self.memory.put(write.key, known);
                    }
                }
            }
        }
    }
}

/// What a lost race brought back.
fn given(item: Option<&Item>) -> Known {
    let entry = item.and_then(|item| item::entry_of(item.clone()).ok());
    entry.map_or(Known::Unclear, Known::Given)
}

impl Versioned for Table {
    fn capability(&self) -> VersionedCapability {
        // A transaction costs twice what its writes cost alone.
        VersionedCapability::multi_key(KEYS_PER_SWAP)
            .with_max_state_bytes(MAX_STATE_BYTES)
            .without_joint_batches()
    }

    async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        in_a_runtime()?;
        let entries = self.find(keys).await?;
        for (key, entry) in keys.iter().zip(&entries) {
            self.memory.saw(key, entry.as_ref());
        }
        Ok(Snapshot { entries, clock: None })
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        in_a_runtime()?;
        // Forgotten until the outcome is known, and for good if nobody waits for it.
        let before: Vec<Option<Known>> =
            writes.iter().map(|write| self.memory.take(write.key)).collect();
        let token = self.tokens.next();
        let written = self.write(writes, &token).await?;
        self.settle(writes, before, &written, &token);
        Ok(matches!(written, Written::All))
    }

    /// A key is recalled if this process wrote it last or was just told what it holds. The record of
    /// a request id is taken to be missing, unless it was found to be there: ids are rarely sent twice.
    fn recall(&self, keys: &[&str]) -> Option<Snapshot> {
        let recalled = |key: &&str| match self.memory.known(key) {
            Some(known) => known.entry().cloned().map(Some),
            None if record::is_name(key) => Some(None),
            None => None,
        };
        let entries = keys.iter().map(recalled).collect::<Option<Vec<_>>>()?;
        Some(Snapshot { entries, clock: None })
    }
}

/// Amazon's client and the deadlines live on tokio, which panics where it is missing.
pub(crate) fn in_a_runtime() -> Result<()> {
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
