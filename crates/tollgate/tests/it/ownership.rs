//! A limiter closes a store only if it made it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::store::{At, BoxStore, Capability, Loaded, Outcome, Store};
use tollgate::{Admission, Key, Limiter, ManualClock, Result};
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

    async fn admit(&self, admission: &Admission<'_>, at: At) -> Result<Outcome> {
        self.inner.admit(admission, at).await
    }

    async fn load(&self, keys: &[Key<'_>], at: At) -> Result<Loaded> {
        self.inner.load(keys, at).await
    }

    async fn reset(&self, key: Key<'_>) -> Result<()> {
        self.inner.reset(key).await
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
    // Whoever made it closes it.
    block_on(BoxStore::new(store.clone()).close());
    assert_eq!(store.closed.load(Relaxed), 1);
}

#[test]
fn a_limiter_with_a_store_of_its_own_works_and_closes() {
    let limiter = Limiter::in_memory();
    let limit = per_hour("p", 2);
    let allowed =
        (0..4).filter(|_| limiter.check_sync(limit.charge("k")).unwrap().is_allowed()).count();
    assert_eq!(allowed, 2);
    block_on(limiter.close());
    block_on(limiter.close());
}
