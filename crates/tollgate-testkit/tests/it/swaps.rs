//! A backend that compares passes, and one that does not is found.

use tollgate_core::Result;
use tollgate_core::store::cas::{Snapshot, Swap, Versioned, VersionedCapability};
use tollgate_testkit::conformance::swaps_compare;
use tollgate_testkit::runtime::block_on;

use crate::versioned_table::VersionedTable;

#[test]
fn a_backend_that_compares_passes() {
    block_on(swaps_compare(&VersionedTable::new(1)));
    block_on(swaps_compare(&VersionedTable::new(100)));
}

/// Writes each key that has the version it expects, whatever the others have.
struct OneByOne(VersionedTable);

/// Writes over every version.
struct Careless(VersionedTable);

impl Versioned for OneByOne {
    fn capability(&self) -> VersionedCapability {
        self.0.capability()
    }

    async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        self.0.read(keys).await
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        let mut all = true;
        for write in writes {
            all &= self.0.swap(&[*write]).await?;
        }
        Ok(all)
    }
}

impl Versioned for Careless {
    fn capability(&self) -> VersionedCapability {
        self.0.capability()
    }

    async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        self.0.read(keys).await
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        for write in writes {
            let entry = self.0.read(&[write.key]).await?.entries.remove(0);
            let expect = entry.as_ref().map(|entry| &entry.version);
            self.0.swap(&[Swap { expect, ..*write }]).await?;
        }
        Ok(true)
    }
}

#[test]
#[should_panic(expected = "a key that exists was written as a new one")]
fn a_backend_that_writes_over_every_version_is_found() {
    block_on(swaps_compare(&Careless(VersionedTable::new(100))));
}

#[test]
#[should_panic(expected = "a swap that was refused wrote")]
fn a_backend_that_writes_a_part_is_found() {
    block_on(swaps_compare(&OneByOne(VersionedTable::new(100))));
}
