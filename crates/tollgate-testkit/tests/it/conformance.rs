//! The suite on the reference store: as it is, erased, shared, and behind faults that never come.

use std::future::{Future, ready};

use tollgate_testkit::ReferenceStore;
use tollgate_testkit::conformance::Options;
use tollgate_testkit::runtime::block_on;
use tollgate_testkit::store_conformance;

/// Few enough that the clause about the bound can fill the table.
const RECORDS_MAX: usize = 120;

fn open() -> impl Future<Output = ReferenceStore> {
    ready(ReferenceStore::with_records_max(RECORDS_MAX))
}

fn options() -> Options {
    Options { records_max: Some(RECORDS_MAX), ..Options::default() }
}

mod reference {
    use super::*;
    store_conformance!(runner = block_on, open = open, options = options());
}

mod with_defaults {
    use super::*;
    store_conformance!(open);
}

mod erased {
    use super::*;
    use tollgate_core::store::BoxStore;
    store_conformance!(runner = block_on, open = || async { BoxStore::new(open().await) });
}

mod behind_faults_that_never_come {
    use super::*;
    use tollgate_core::ManualClock;
    use tollgate_testkit::fault::Faulty;
    store_conformance!(
        runner = block_on,
        open = || async { Faulty::scripted(open().await, ManualClock::at(0), []) },
    );
}

mod reclaiming {
    use super::*;
    use crate::reclaiming_store::ReclaimingStore;
    store_conformance!(|| ready(ReclaimingStore::default()));
}

mod clocked {
    use super::*;
    use crate::clocked_store::ClockedStore;
    store_conformance!(
        runner = block_on,
        open = || async { ClockedStore::new(open().await) },
        options = options(),
    );
}

mod memory {
    use super::*;
    use tollgate_core::store::{Bounds, Memory, WhenIdsFull};

    fn open_memory() -> impl Future<Output = Memory> {
        let bounds = Bounds::new().max_keys(10_000).max_request_ids(RECORDS_MAX);
        let bounds = bounds.when_ids_full(WhenIdsFull::Refuse);
        ready(Memory::builder().bounds(bounds).build().unwrap())
    }

    store_conformance!(runner = block_on, open = open_memory, options = options());
}

mod compare_and_swap {
    use super::*;
    use crate::versioned_table::VersionedTable;
    use tollgate_core::store::Cas;

    mod several_keys {
        use super::*;
        store_conformance!(
            runner = block_on,
            open = || ready(Cas::new(VersionedTable::new(100)).max_request_ids(RECORDS_MAX)),
            options = options(),
        );
    }

    mod one_key {
        use super::*;
        store_conformance!(
            runner = block_on,
            open = || ready(Cas::new(VersionedTable::new(1)).max_records(RECORDS_MAX)),
            options = options(),
        );
    }
}
