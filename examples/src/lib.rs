//! Examples of Tollgate: each is one file in `examples/`, runs as it is, and is tested.
//!
//! - `library_only`: layered limits in one process, costs, when to retry, refunds.
//! - `custom_algorithm`: an algorithm of your own, on two stores.
//! - `custom_store`: a store of your own, proved by the public conformance suite.
//! - `llm_tokens`: a budget that a streamed answer may overrun, settled at its end.
//! - `redis_own_client`: Redis through a client of your own.
//! - `testing_with_manual_clock`: tests of an application that never sleep.
//!
//! What they share is here: [`Table`], a backend in its shortest form.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate::Result;
use tollgate::store::cas::{Entry, Snapshot, Swap, Version, Versioned, VersionedCapability};

/// A database with compare-and-swap: key to (version, value).
#[derive(Debug, Default)]
pub struct Table(Mutex<BTreeMap<String, (u64, String)>>);

impl Table {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<String, (u64, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Versioned for Table {
    fn capability(&self) -> VersionedCapability {
        VersionedCapability::multi_key(100).volatile()
    }

    async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        let rows = self.rows();
        let entry = |(version, text): &(u64, String)| Entry {
            text: text.clone(),
            version: Version::Number(*version),
        };
        let entries = keys.iter().map(|key| rows.get(*key).map(entry)).collect();
        Ok(Snapshot { entries, clock: None })
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        let mut rows = self.rows();
        let version = |key: &str| rows.get(key).map(|(version, _)| Version::Number(*version));
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

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::Table;
    use tollgate::store::Cas;

    tollgate_testkit::store_conformance!(|| ready(Cas::new(Table::default())));
}

/// The code of the getting-started page compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../docs/getting-started.md")]
struct GettingStarted;
