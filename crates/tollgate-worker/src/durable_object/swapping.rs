//! Objects as a table that compares and swaps, for algorithms that users write: an object knows the
//! built-in ones alone.

use tollgate_core::store::cas::{Entry, Snapshot, Swap, Version, Versioned, VersionedCapability};
use tollgate_core::{Code, Error, Result};

use super::calls::Calls;
use super::wire::SentSwap;

/// How many values one swap may write; all of them are in one object.
const KEYS_MAX: u32 = 1_000;

/// The objects of a namespace.
#[derive(Debug)]
pub(super) struct Swapping(pub(super) Calls);

impl Versioned for Swapping {
    fn capability(&self) -> VersionedCapability {
        VersionedCapability::multi_key(KEYS_MAX).with_own_clock().with_long_logs()
    }

    async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        let (clock, values) = self.0.read(keys).await?;
        // A value is its own version: two equal states are one to every step.
        let entry = |text: String| Entry { version: Version::Text(text.as_str().into()), text };
        let entries = values.into_iter().map(|value| value.map(entry)).collect();
        Ok(Snapshot { entries, clock: Some(clock) })
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        let mut shards = writes.iter().map(|write| self.0.shard(write.key));
        let Some(shard) = shards.next() else { return Ok(true) };
        if shards.any(|other| other != shard) {
            let message = "algorithms of users cannot be charged over several objects";
            return Err(Error::new(Code::Unsupported, message).not_sent());
        }
        self.0.swap(shard, sent_swaps(writes)).await
    }
}

/// The messages of swaps.
pub(super) fn sent_swaps(writes: &[Swap<'_>]) -> Vec<SentSwap> {
    let sent = |write: &Swap<'_>| SentSwap {
        name: write.key.to_owned(),
        expect: match write.expect {
            Some(Version::Text(text)) => Some(text.to_string()),
            Some(Version::Number(_)) | None => None,
        },
        value: write.value.to_owned(),
        keep_until: write.keep_until,
    };
    writes.iter().map(sent).collect()
}
