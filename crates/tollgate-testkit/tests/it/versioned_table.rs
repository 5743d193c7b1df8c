//! A table with versions for the compare-and-swap adapter, which gives way inside every call.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tollgate_core::Result;
use tollgate_core::store::cas::{Entry, Snapshot, Swap, Version, Versioned, VersionedCapability};
use tollgate_testkit::runtime::yield_now;

/// Key to (version, value).
#[derive(Debug)]
pub(crate) struct VersionedTable {
    keys_per_swap: u32,
    rows: Mutex<BTreeMap<String, (u64, String)>>,
}

impl VersionedTable {
    pub(crate) fn new(keys_per_swap: u32) -> Self {
        Self { keys_per_swap, rows: Mutex::default() }
    }
}

impl Versioned for VersionedTable {
    fn capability(&self) -> VersionedCapability {
        VersionedCapability::multi_key(self.keys_per_swap).volatile()
    }

    async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        yield_now().await;
        let entries = {
            let rows = self.rows.lock().unwrap();
            let row = |key: &&str| {
                let (version, text) = rows.get(*key)?.clone();
                Some(Entry { text, version: Version::Number(version) })
            };
            keys.iter().map(row).collect()
        };
        yield_now().await;
        Ok(Snapshot { entries, clock: None })
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        yield_now().await;
        let mut rows = self.rows.lock().unwrap();
        let version = |key: &str| rows.get(key).map(|row| Version::Number(row.0));
        if writes.iter().any(|write| version(write.key).as_ref() != write.expect) {
            return Ok(false);
        }
        for write in writes {
            let row = rows.entry(write.key.to_owned()).or_default();
            *row = (row.0 + 1, write.value.to_owned());
        }
        Ok(true)
    }
}
