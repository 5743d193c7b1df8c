//! A store with a clock of its own that accepts no other: the suite must do without injected time.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::store::{Capability, Evidence, Loaded, Store, TimeSource};
use tollgate_core::{Admission, Charge, Code, Error, Key, Result};
use tollgate_testkit::ReferenceStore;

/// Its clock moves by 137 µs with every call.
#[derive(Debug)]
pub(crate) struct ClockedStore {
    inner: ReferenceStore,
    clock: AtomicU64,
}

impl ClockedStore {
    pub(crate) fn new(inner: ReferenceStore) -> Self {
        Self { inner, clock: AtomicU64::new(1_800_000_000_000_000) }
    }

    fn read(&self, at: TimeSource) -> Result<TimeSource> {
        match at {
            TimeSource::StoreClock => {
                Ok(TimeSource::Given(self.clock.fetch_add(137, Ordering::Relaxed)))
            }
            TimeSource::Given(_) => {
                Err(Error::new(Code::Unsupported, "this store has its own clock"))
            }
        }
    }
}

impl Store for ClockedStore {
    fn capability(&self) -> Capability {
        let mut capability = self.inner.capability();
        capability.own_clock = true;
        capability
    }

    async fn admit(&self, admission: &Admission<'_>, at: TimeSource) -> Result<Evidence> {
        self.inner.admit(admission, self.read(at)?).await
    }

    async fn load(&self, charges: &[Charge<'_>], at: TimeSource) -> Result<Loaded> {
        self.inner.load(charges, self.read(at)?).await
    }

    async fn reset(&self, key: Key<'_>) -> Result<()> {
        self.inner.reset(key).await
    }
}
