//! The conformance suite and the golden vectors, on a store that rests and on one that sweeps all
//! the time, which must not be noticed.

use std::future::{Ready, ready};
use std::time::Duration;

use tollgate_core::store::{BatchResults, CallContext, Capability, Evidence, Loaded, Store};
use tollgate_core::{Admission, Charge, Key, Result};
use tollgate_sqlite::{Config, Sqlite};
use tollgate_test_servers::Folder;
use tollgate_testkit::conformance::Options;

use crate::support::{block_on, config, connect, file};

const RECORDS_MAX: u64 = 120;

/// A store with its folder, which goes after it.
struct Filed {
    store: Sqlite,
    _folder: Folder,
}

impl Store for Filed {
    fn capability(&self) -> Capability {
        self.store.capability()
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.store.admit(admission, cx).await
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        self.store.admit_many(batch, results, cx).await;
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.store.load(charges, cx).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.store.reset(key, cx).await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

fn filed(change: fn(Config) -> Config) -> Ready<Filed> {
    let (folder, path) = file();
    let store = connect(change(config(&path)).max_request_ids(RECORDS_MAX));
    ready(Filed { store, _folder: folder })
}

fn resting() -> Ready<Filed> {
    filed(|config| config.sweep_every(None))
}

fn sweeping() -> Ready<Filed> {
    filed(|config| config.sweep_every(Some(Duration::ZERO)))
}

fn options() -> Options {
    Options { records_max: usize::try_from(RECORDS_MAX).ok(), ..Options::default() }
}

mod at_rest {
    use super::*;
    tollgate_testkit::store_conformance!(runner = block_on, open = resting, options = options());
}

mod while_sweeping {
    use super::*;
    tollgate_testkit::store_conformance!(runner = block_on, open = sweeping, options = options());
}
