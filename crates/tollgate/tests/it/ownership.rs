//! What belongs to the store: its end, and its clock if it has one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::authoring::Key;
use tollgate::store::{BoxStore, CallContext, Capability, Evidence, Loaded, Store, TimeSource};
use tollgate::{Admission, Charge, Clock, Code, Error, Limiter, ManualClock, Result};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::runtime::block_on;

use crate::support::{NOW, per_hour};

#[derive(Debug, Default)]
struct Closing {
    inner: ReferenceStore,
    closed: AtomicU64,
}

impl Store for Closing {
    fn capability(&self) -> Capability {
        self.inner.capability()
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.inner.admit(admission, cx).await
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.inner.load(charges, cx).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.inner.reset(key, cx).await
    }

    async fn close(&self) {
        self.closed.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_store_that_was_handed_in_stays_open() {
    let store = Arc::new(Closing::default());
    let limit = per_hour("p", 10);
    let handed = Limiter::new(store.clone());
    let built = Limiter::with_clock(store.clone(), ManualClock::at(NOW)).build();
    let erased = Limiter::new(BoxStore::new(store.clone()));
    block_on(async {
        handed.close().await;
        built.close().await;
        erased.close().await;
    });
    drop((handed, erased));
    assert_eq!(store.closed.load(Relaxed), 0);
    assert!(block_on(built.check(limit.charge("k"))).unwrap().is_allowed());
    // What made it closes it.
    block_on(BoxStore::new(store.clone()).close());
    assert_eq!(store.closed.load(Relaxed), 1);
}

#[test]
fn a_limiter_with_a_store_of_its_own_works_and_closes() {
    let limiter = Limiter::in_memory();
    let limit = per_hour("p", 2);
    let allowed =
        (0..4).filter(|_| limiter.sync().check(limit.charge("k")).unwrap().is_allowed()).count();
    assert_eq!(allowed, 2);
    block_on(limiter.close());
    block_on(limiter.close());
}

/// A store with a clock of its own that accepts no other.
#[derive(Debug)]
struct Clocked {
    inner: ReferenceStore,
    clock: ManualClock,
}

impl Clocked {
    fn read<'a>(&self, cx: CallContext<'a>) -> Result<CallContext<'a>> {
        match cx.time() {
            TimeSource::StoreClock => Ok(cx.with_time(TimeSource::Given(self.clock.now()))),
            TimeSource::Given(_) => {
                Err(Error::new(Code::Unsupported, "this store has its own clock"))
            }
        }
    }
}

impl Store for Clocked {
    fn capability(&self) -> Capability {
        let mut capability = self.inner.capability();
        capability.own_clock = true;
        capability.in_process = false;
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

#[test]
fn a_store_with_a_clock_of_its_own_decides_by_it() {
    let clock = ManualClock::at(NOW);
    let store = Clocked { inner: ReferenceStore::new(), clock: clock.clone() };
    // The limiter's own clock stands still, a year behind.
    let limiter = Limiter::with_clock(store, ManualClock::at(NOW - 31_536_000_000_000)).build();
    let limit = per_hour("p", 2);
    let hour_ms = 3_600_000;
    let first = block_on(limiter.check(limit.charge("k"))).unwrap();
    assert_eq!(first.reset_at_ms, NOW / 1_000 + hour_ms / 2);
    assert!(block_on(limiter.check_batch(&[limit.charge("k")]))[0].as_ref().unwrap().is_allowed());
    let denied = block_on(limiter.check(limit.charge("k"))).unwrap();
    assert_eq!(denied.retry_after_ms, Some(hour_ms / 2));
    assert_eq!(block_on(limiter.peek(limit.charge("k"))).unwrap(), denied);
    clock.set(NOW + hour_ms / 2 * 1_000);
    assert_eq!(block_on(limiter.forecast(limit.charge("k"))).unwrap().spendable_now, 1);
    assert!(block_on(limiter.check(limit.charge("k"))).unwrap().is_allowed());
    assert_eq!(limiter.stats().clock_behind, 0);
}
