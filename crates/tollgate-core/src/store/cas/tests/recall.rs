//! Backends that keep values: a read is saved only where the swap proves what was kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::*;
use crate::charge::RequestId;
use crate::store::cas::{Entry, Snapshot, Swap, VersionedCapability};

/// A process with a memory of its own in front of a table that several share. It recalls whatever
/// it read last, however stale that is, and takes every key it never read for missing.
struct Remembering {
    table: Arc<Table>,
    seen: Mutex<BTreeMap<String, Option<Entry>>>,
}

impl Remembering {
    fn of(table: &Arc<Table>) -> Self {
        Self { table: Arc::clone(table), seen: Mutex::default() }
    }

    /// Looks at the table after the fact, as a backend learns versions from its own swaps.
    async fn keep(&self, keys: &[&str]) {
        let snapshot = self.table.read(keys).await.unwrap();
        let seen = keys.iter().map(|key| (*key).to_owned()).zip(snapshot.entries);
        self.seen.lock().unwrap().extend(seen);
    }
}

impl Versioned for Remembering {
    fn capability(&self) -> VersionedCapability {
        self.table.capability()
    }

    async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        let snapshot = self.table.read(keys).await?;
        let seen = keys.iter().map(|key| (*key).to_owned()).zip(snapshot.entries.clone());
        self.seen.lock().unwrap().extend(seen);
        Ok(snapshot)
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        let keys: Vec<&str> = writes.iter().map(|write| write.key).collect();
        let swapped = self.table.swap(writes).await;
        self.keep(&keys).await;
        swapped
    }

    fn recall(&self, keys: &[&str]) -> Option<Snapshot> {
        let seen = self.seen.lock().unwrap();
        let entries = keys.iter().map(|key| seen.get(*key).cloned().flatten()).collect();
        Some(Snapshot { entries, clock: None })
    }
}

#[test]
fn processes_that_recall_stale_values_pass_exactly_the_limit() {
    for seed in 0..60 {
        let clock = ManualClock::at(START);
        let table = Arc::new(Table::multi_key());
        let stores = [0, 1, 2].map(|_| {
            cas(Remembering::of(&table), &clock).retries(Retries::default().max_retries(1_000))
        });
        let (hot, other) = (per_hour("hot", 50), per_hour("other", 1_000));
        let mut sim = Sim::seeded(seed, &clock);
        for index in 0..90 {
            let (store, hot, other) = (&stores[index % 3], &hot, &other);
            sim.spawn(async move {
                let both = [hot.charge("one"), other.charge("two")];
                let id = index.to_string();
                let admission = match index % 5 {
                    0 => Admission::of(&both),
                    1 => Admission::of(&both[..1]).request_id(RequestId::new(&id).unwrap()),
                    _ => Admission::of(&both[..1]),
                };
                let outcome = store.admit(&admission, NOW).await.unwrap();
                decisions(admission.charges(), &outcome).iter().all(Decision::is_allowed)
            });
        }
        let allowed = sim.run().into_iter().flatten().filter(|allowed| *allowed).count();
        assert_eq!(allowed, 50, "seed {seed}");
        assert_eq!(stored(&stores[0], &hot.charge("one")), 50, "seed {seed}");
    }
}

#[test]
fn a_key_without_other_writers_is_never_read() {
    let clock = ManualClock::at(START);
    let table = Arc::new(Table::multi_key());
    let store = cas(Remembering::of(&table), &clock);
    let limit = per_hour("own", 10);
    for _ in 0..10 {
        assert!(block_on(check(&store, limit.charge("one"))).unwrap());
    }
    let looks = Table::count(&table.swaps_sent);
    assert_eq!(looks, 10);
    // The backend of this test reads after each swap, and the adapter never does.
    assert_eq!(Table::count(&table.reads), looks);
}

#[test]
fn a_denial_is_never_recalled() {
    let clock = ManualClock::at(START);
    let table = Arc::new(Table::multi_key());
    let stores = [0, 1].map(|_| cas(Remembering::of(&table), &clock));
    let limit = per_hour("spent", 1);
    let charge = limit.charge("one");
    assert!(block_on(check(&stores[0], charge)).unwrap());
    assert!(!block_on(check(&stores[0], charge)).unwrap());
    block_on(stores[1].reset(charge.key(), NOW)).unwrap();
    // The first process still has the key as spent.
    assert!(block_on(check(&stores[0], charge)).unwrap());
    assert_eq!(stored(&stores[1], &charge), 1);
}

#[test]
fn a_replay_is_found_though_its_record_was_taken_for_missing() {
    let clock = ManualClock::at(START);
    let table = Arc::new(Table::multi_key());
    let limit = per_hour("ids", 5);
    let charges = [limit.charge("one")];
    let admission = Admission::of(&charges).request_id(RequestId::new("a").unwrap());
    for replayed in [false, true, true] {
        // A process that has seen nothing yet.
        let store = cas(Remembering::of(&table), &clock)
            .retries(Retries::default().base_backoff(Duration::ZERO));
        let outcome = block_on(store.admit(&admission, NOW)).unwrap();
        assert_eq!(outcome.replayed.is_some(), replayed);
        assert_eq!(stored(&store, &charges[0]), 1);
    }
}

/// Counted where another writer won, and nowhere else.
#[test]
fn lost_races_are_counted() {
    let clock = ManualClock::at(START);
    let table = Arc::new(Table::multi_key());
    let limit = per_hour("races", 10);
    let plain = cas(Arc::clone(&table), &clock);
    for _ in 0..3 {
        assert!(block_on(check(&plain, limit.charge("one"))).unwrap());
    }
    assert_eq!(plain.lost_races(), 0, "a backend that keeps nothing reads first");
    let stale = cas(Remembering::of(&table), &clock)
        .retries(Retries::default().base_backoff(Duration::ZERO));
    assert!(block_on(check(&stale, limit.charge("one"))).unwrap());
    assert_eq!(stale.lost_races(), 1, "it took the key for missing");
    assert!(block_on(check(&stale, limit.charge("one"))).unwrap());
    assert_eq!(stale.lost_races(), 1);
}

#[test]
fn a_shared_backend_recalls_and_bounds_calls_as_it_does_alone() {
    let clock = ManualClock::at(START);
    let table = Arc::new(Table::multi_key());
    let store = cas(Arc::new(Remembering::of(&table)), &clock);
    let limit = per_hour("own", 10);
    for _ in 0..3 {
        assert!(block_on(check(&store, limit.charge("one"))).unwrap());
    }
    // Those of the backend after each swap.
    assert_eq!(Table::count(&table.reads), Table::count(&table.swaps_sent));
    assert!(Arc::new(Table::multi_key().with_call_limit(1)).call_limit().is_some());
    assert!(table.call_limit().is_none());
}
