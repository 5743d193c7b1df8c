//! A store that records lost races passes, and one that does not is found.

use std::sync::Arc;

use tollgate_core::algorithm::{Anchor, FixedWindow};
use tollgate_core::store::{BoxStore, CallContext, Capability, Cas, Evidence, Loaded, Store};
use tollgate_core::{Admission, Charge, Key, Limit, ManualClock, Micros, Quota, Result};
use tollgate_testkit::contention::{Losses, losers_are_never_let_in};
use tollgate_testkit::runtime::block_on;

use crate::versioned_table::VersionedTable;

const NOW: Micros = 1_700_000_000_000_000;

/// A store that records no facts.
#[derive(Debug)]
struct Mute<S>(S);

impl<S: Store> Store for Mute<S> {
    fn capability(&self) -> Capability {
        self.0.capability()
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.0.admit(admission, CallContext::new(cx.time())).await
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.0.load(charges, cx).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.0.reset(key, cx).await
    }
}

fn fight(wrap: impl Fn(Cas<Arc<VersionedTable>>) -> BoxStore) {
    let table = Arc::new(VersionedTable::new(10));
    let losses = Losses::default();
    let loser = wrap(Cas::with_clock(Arc::clone(&table), losses.clone()));
    let rival = wrap(Cas::with_clock(table, ManualClock::at(NOW)));
    let month = Quota::new(1_000, std::time::Duration::from_secs(30 * 86_400));
    let limit = Limit::new("fight", FixedWindow::new(month, Anchor::FirstHit).unwrap()).unwrap();
    block_on(losers_are_never_let_in((loser, rival), || losses.count(), &limit, NOW));
}

#[test]
fn callers_of_a_store_that_records_lost_races_are_refused() {
    fight(BoxStore::new);
}

#[test]
#[should_panic(expected = "the loser was let in")]
fn a_store_that_records_no_facts_is_found() {
    fight(|store| BoxStore::new(Mute(store)));
}
