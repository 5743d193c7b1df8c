//! A store with a clock of its own that accepts no other: the suite must do without injected time.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::store::{CallContext, Capability, Evidence, Loaded, Store, TimeSource};
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

    fn read<'a>(&self, cx: CallContext<'a>) -> Result<CallContext<'a>> {
        match cx.time() {
            TimeSource::StoreClock => {
                let reading = self.clock.fetch_add(137, Ordering::Relaxed);
                Ok(cx.with_time(TimeSource::Given(reading)))
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

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.inner.admit(admission, self.read(cx)?).await
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.inner.load(charges, self.read(cx)?).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.inner.reset(key, cx).await
    }
}
