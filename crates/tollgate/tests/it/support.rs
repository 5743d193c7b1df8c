//! What the tests share: stores, limits, and futures that are driven by hand.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tollgate::algorithm::{Custom, CustomStep, Gcra};
use tollgate::authoring::Now;
use tollgate::clock::WaitHandle;
use tollgate::store::cas::{Entry, Snapshot, Swap, Version, Versioned, VersionedCapability};
use tollgate::store::{BoxStore, Cas, Memory, Retries};
use tollgate::{Charge, Clock, Cost, Decision, Limit, ManualClock, Micros, Quota, Result, Rule};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::fault::{Fault, Faulty};
use tollgate_testkit::model::{Kind, ModelQuota};
use tollgate_testkit::runtime::yield_now;

/// Mid-November 2023, at the start of a second.
pub(crate) const NOW: Micros = 1_700_000_000_000_000;
pub(crate) const MS: Micros = 1_000;
pub(crate) const SECOND: Micros = 1_000_000;

pub(crate) fn units(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

pub(crate) fn memory() -> Memory {
    Memory::builder().max_keys(20_000).build().unwrap()
}

/// An in-memory table behind the compare-and-swap adapter, which gives way inside every call.
pub(crate) fn compare_and_swap() -> Cas<VersionedTable> {
    Cas::with_clock(VersionedTable::default(), ManualClock::at(NOW))
        .retries(Retries::default().base_backoff(Duration::ZERO))
}

/// Every kind of store, by name.
pub(crate) fn stores() -> Vec<(&'static str, BoxStore)> {
    vec![
        ("memory", BoxStore::new(memory())),
        ("reference", BoxStore::new(ReferenceStore::new())),
        ("compare_and_swap", BoxStore::new(compare_and_swap())),
    ]
}

/// A reference store whose calls fail as planned, shared so that a test can inspect it.
pub(crate) fn faulty(
    clock: &ManualClock,
    faults: impl IntoIterator<Item = Fault>,
) -> Arc<Faulty<ReferenceStore>> {
    Arc::new(Faulty::scripted(ReferenceStore::new(), clock.clone(), faults))
}

/// `limit` units per period under an algorithm of this kind; each admits `limit` at once.
pub(crate) fn rule(kind: Kind, limit: u64, period: Duration) -> Rule {
    let period_us = u64::try_from(period.as_micros()).unwrap();
    ModelQuota::of_kind(kind, limit, period_us).pop().unwrap().rule().unwrap()
}

pub(crate) fn limit_of(kind: Kind, limit: u64, period: Duration) -> Limit {
    Limit::with_rule(kind.name(), rule(kind, limit, period)).unwrap()
}

/// A gcra limit of `limit` units per hour: nothing comes back during a test.
pub(crate) fn per_hour(policy: &str, limit: u64) -> Limit {
    Limit::new(policy, Gcra::new(Quota::per_hour(limit)).unwrap()).unwrap()
}

/// A charge for a number of units.
pub(crate) fn charge<'a>(limit: &'a Limit, subject: &'a str, cost: u64) -> Charge<'a> {
    limit.charge(subject).cost(units(cost))
}

/// A user's own algorithm: a fixed number of units, for ever. No share of it can be made.
#[derive(Debug)]
pub(crate) struct Allowance(pub(crate) u64);

impl Custom for Allowance {
    type State = u64;
    const NAME: &'static str = "allowance";

    fn parameters(&self) -> [u64; 3] {
        [self.0, 0, 0]
    }

    fn ceiling(&self) -> u64 {
        self.0
    }

    fn horizon(&self) -> Micros {
        1 << 50
    }

    fn encode(&self, state: &u64) -> Vec<u64> {
        vec![*state]
    }

    fn decode(&self, words: &[u64]) -> Option<u64> {
        words.first().copied()
    }

    fn step(&self, spent: Option<&u64>, now: Now, cost: Cost) -> CustomStep<u64> {
        let spent = spent.copied().unwrap_or(0) + cost.get();
        let at = now.reading() / MS;
        if spent > self.0 {
            let left = self.0 - (spent - cost.get());
            return CustomStep { decision: Decision::denied(self.0, left, at, 1), next: None };
        }
        let decision = Decision::allowed(self.0, self.0 - spent, at);
        CustomStep { decision, next: Some((spent, 1 << 51)) }
    }
}

/// Key to (version, value).
#[derive(Debug, Default)]
pub(crate) struct VersionedTable(Mutex<BTreeMap<String, (u64, String)>>);

impl VersionedTable {
    /// Overwrites every value with a text.
    pub(crate) fn spoil(&self, key_holds: &str, text: &str) {
        let mut rows = self.0.lock().unwrap();
        for (key, row) in rows.iter_mut().filter(|(key, _)| key.contains(key_holds)) {
            println!("spoils {key}");
            *row = (row.0 + 1, text.to_owned());
        }
    }
}

impl Versioned for VersionedTable {
    fn capability(&self) -> VersionedCapability {
        VersionedCapability::multi_key(100).volatile()
    }

    async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        yield_now().await;
        let entries = {
            let rows = self.0.lock().unwrap();
            let row = |key: &&str| {
                let (version, text) = rows.get(*key)?.clone();
                Some(Entry { text, version: Version::Number(version) })
            };
            keys.iter().map(row).collect()
        };
        yield_now().await;
        Ok(Snapshot { entries, clock: None })
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        yield_now().await;
        let mut rows = self.0.lock().unwrap();
        let version = |key: &str| rows.get(key).map(|row| Version::Number(row.0));
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

/// A clock that counts how often it is read.
#[derive(Clone, Debug)]
pub(crate) struct CountingClock {
    pub(crate) manual: ManualClock,
    reads: Arc<AtomicU64>,
}

impl CountingClock {
    pub(crate) fn at(now: Micros) -> Self {
        Self { manual: ManualClock::at(now), reads: Arc::default() }
    }

    /// Readings since this was last asked.
    pub(crate) fn take_reads(&self) -> u64 {
        self.reads.swap(0, Relaxed)
    }
}

impl Clock for CountingClock {
    fn now(&self) -> Micros {
        self.reads.fetch_add(1, Relaxed);
        self.manual.now()
    }

    fn wake_at(&self, at: Micros, waker: &Waker) -> WaitHandle {
        self.manual.wake_at(at, waker)
    }
}

/// Counts how often it is woken.
#[derive(Debug, Default)]
pub(crate) struct WakeCount(pub(crate) AtomicU64);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A future on the heap, driven by hand.
pub(crate) type Call<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Polls once without a waker: the output if it is there.
pub(crate) fn poll<T>(call: &mut Call<'_, T>) -> Option<T> {
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
