//! `check_batch`: one instant for all, one reading of the clock, in order, each on its own.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::authoring::Key;
use tollgate::store::{
    BatchResults, BoxStore, CallContext, Capability, Cas, Evidence, Loaded, Memory, Store,
    TimeSource,
};
use tollgate::{
    Admission, Charge, Code, Decision, Limiter, ManualClock, Micros, RequestId, Result,
};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::fault::Fault;
use tollgate_testkit::runtime::block_on;

use crate::support::{
    CountingClock, NOW, VersionedTable, charge, compare_and_swap, faulty, memory, per_hour, stores,
};

/// Notes the instant of every admission, and answers as a remote store would.
#[derive(Debug, Default)]
struct Noting {
    inner: ReferenceStore,
    instants: Mutex<Vec<TimeSource>>,
    calls: AtomicU64,
}

impl Noting {
    fn note(&self, at: TimeSource) {
        self.instants.lock().unwrap().push(at);
    }
}

impl Store for Noting {
    fn capability(&self) -> Capability {
        let mut capability = self.inner.capability();
        capability.in_process = false;
        capability
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.note(cx.time());
        self.inner.admit(admission, cx).await
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        self.calls.fetch_add(1, Relaxed);
        batch.iter().for_each(|_| self.note(cx.time()));
        self.inner.admit_many(batch, results, cx).await;
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.inner.load(charges, cx).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.inner.reset(key, cx).await
    }
}

fn reads_of_a_batch(store: BoxStore) -> u64 {
    let clock = CountingClock::at(NOW);
    let limiter = Limiter::with_clock(store, clock.clone()).build();
    let limit = per_hour("p", 1_000);
    let charges = vec![limit.charge("k"); 100];
    clock.take_reads();
    assert!(block_on(limiter.check_batch(&charges)).iter().all(Result::is_ok));
    clock.take_reads()
}

#[test]
fn a_batch_reads_the_clock_once() {
    assert_eq!(reads_of_a_batch(BoxStore::new(memory())), 1, "memory");
    assert_eq!(reads_of_a_batch(BoxStore::new(ReferenceStore::new())), 1, "reference");
    assert_eq!(reads_of_a_batch(BoxStore::new(Noting::default())), 1, "remote");
}

#[test]
fn every_call_that_is_answered_at_once_reads_the_clock_once() {
    let clock = CountingClock::at(NOW);
    let limiter = Limiter::with_clock(Noting::default(), clock.clone()).build();
    let limit = per_hour("p", 1_000);
    let decision = block_on(limiter.check(limit.charge("k"))).unwrap();
    assert_eq!(clock.take_reads(), 1, "check");
    block_on(limiter.check(&[limit.charge("k")])).unwrap();
    assert_eq!(clock.take_reads(), 1, "several charges");
    block_on(limiter.peek(limit.charge("k"))).unwrap();
    assert_eq!(clock.take_reads(), 1, "peek");
    block_on(limiter.forecast(limit.charge("k"))).unwrap();
    assert_eq!(clock.take_reads(), 1, "forecast");
    block_on(limiter.refund(limit.charge("k").refund(decision.receipt().unwrap()))).unwrap();
    assert_eq!(clock.take_reads(), 1, "refund");
    block_on(limiter.reset(limit.charge("k"))).unwrap();
    assert_eq!(clock.take_reads(), 1, "reset");
}

#[test]
fn all_elements_are_decided_at_one_instant() {
    let store = std::sync::Arc::new(Noting::default());
    let limiter = Limiter::with_clock(store.clone(), ManualClock::at(NOW)).build();
    let limit = per_hour("p", 10);
    let subjects: Vec<String> = (0..50).map(|n| format!("k{n}")).collect();
    let charges: Vec<Charge<'_>> = subjects.iter().map(|subject| limit.charge(subject)).collect();
    let decisions = block_on(limiter.check_batch(&charges));
    assert_eq!(*store.instants.lock().unwrap(), vec![TimeSource::Given(NOW); 50]);
    assert_eq!(store.calls.load(Relaxed), 1, "one round trip");
    let first = decisions[0].as_ref().unwrap();
    assert!(decisions.iter().all(|decision| decision.as_ref().unwrap() == first));
}

#[test]
fn a_batch_is_decided_in_its_order() {
    for (name, store) in stores() {
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        let (a, b) = (per_hour("a", 3), per_hour("b", 100));
        // Two keys interleaved; the fourth unit of the first is too much.
        let charges: Vec<Charge<'_>> =
            (0..4).flat_map(|n| [charge(&a, "k", 1), charge(&b, "k", n + 1)]).collect();
        let decisions = block_on(limiter.check_batch(&charges));
        let remaining: Vec<u64> =
            decisions.iter().map(|decision| decision.as_ref().unwrap().remaining).collect();
        assert_eq!(remaining, [2, 99, 1, 97, 0, 94, 0, 90], "{name}");
        let allowed: Vec<bool> =
            decisions.iter().map(|decision| decision.as_ref().unwrap().is_allowed()).collect();
        assert_eq!(allowed, [true, true, true, true, true, true, false, true], "{name}");
        assert!(decisions.iter().flatten().all(|decision| decision.binding().is_none()), "{name}");
    }
}

#[test]
fn an_empty_batch_answers_nothing_and_calls_no_store() {
    let store = faulty(&ManualClock::at(NOW), []);
    let limiter = Limiter::with_clock(store.clone(), ManualClock::at(NOW)).build();
    assert!(block_on(limiter.check_batch(&[] as &[Charge<'_>])).is_empty());
    assert!(block_on(limiter.check_batch(&[] as &[Admission<'_>])).is_empty());
    assert_eq!(store.calls(), 0);
}

#[test]
fn the_error_of_an_element_is_its_own() {
    for (name, store) in stores() {
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        let limit = per_hour("p", 10);
        let (one, two) = ([charge(&limit, "k", 1)], [charge(&limit, "k", 2)]);
        let id = RequestId::new("id").unwrap();
        block_on(limiter.check(&Admission::of(&one).request_id(id))).unwrap();
        let batch = [
            Admission::of(&one),
            Admission::of(&two).request_id(id),
            Admission::of(&[]),
            Admission::of(&two),
        ];
        let decided = block_on(limiter.check_batch(&batch));
        let codes: Vec<Result<u64, Code>> = decided
            .into_iter()
            .map(|one| one.map(|decision| decision.remaining).map_err(|error| error.code()))
            .collect();
        let expected = [Ok(8), Err(Code::IdempotencyConflict), Err(Code::InvalidRequest), Ok(6)];
        assert_eq!(codes, expected, "{name}");
    }
}

#[test]
fn a_corrupt_key_fails_alone_in_its_batch() {
    let store = std::sync::Arc::new(compare_and_swap());
    let limiter = Limiter::with_clock(store.clone(), ManualClock::at(NOW)).build();
    let limit = per_hour("p", 10);
    let charges = [limit.charge("good"), limit.charge("bad"), limit.charge("fine")];
    assert!(block_on(limiter.check_batch(&charges)).iter().all(Result::is_ok));
    spoil(&store, "bad");
    let decided = block_on(limiter.check_batch(&charges));
    let codes: Vec<Option<Code>> =
        decided.iter().map(|one| one.as_ref().err().map(tollgate::Error::code)).collect();
    assert_eq!(codes, [None, Some(Code::CorruptState), None]);
    // The cure is a reset.
    block_on(limiter.reset(limit.charge("bad"))).unwrap();
    assert!(block_on(limiter.check(limit.charge("bad"))).unwrap().is_allowed());
}

fn spoil(store: &Cas<VersionedTable>, key_holds: &str) {
    store.backend().spoil(key_holds, "[1,2");
}

#[test]
fn a_store_that_answers_fewer_elements_leaves_none_without_a_decision() {
    let clock = ManualClock::at(NOW);
    let store = faulty(&clock, [Fault::Garbage]);
    let limiter = Limiter::with_clock(store, clock).build();
    let limit = per_hour("p", 10);
    let decided = block_on(limiter.check_batch(&[limit.charge("a"), limit.charge("b")]));
    let codes: Vec<Code> = decided.into_iter().map(|one| one.unwrap_err().code()).collect();
    assert_eq!(codes, [Code::CorruptState; 2], "one answer per charge, and none fails open");
}

/// Decides even subjects at once, and lets the others wait.
#[derive(Debug)]
struct HalfAtOnce(Memory);

impl Store for HalfAtOnce {
    fn capability(&self) -> Capability {
        self.0.capability()
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.0.admit(admission, cx).await
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.0.load(charges, cx).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.0.reset(key, cx).await
    }

    fn decide_now(&self, charge: &Charge<'_>, at: Micros) -> Option<Result<Decision>> {
        charge.subject.len().is_multiple_of(2).then(|| self.0.decide_now(charge, at))?
    }
}

#[test]
fn a_store_that_decides_some_charges_at_once_charges_each_of_them_once() {
    let limiter = Limiter::with_clock(HalfAtOnce(memory()), ManualClock::at(NOW)).build();
    let limit = per_hour("p", 100);
    let charges = ["ab", "ab", "a", "ab", "a"].map(|subject| limit.charge(subject));
    let decisions = block_on(limiter.check_batch(&charges));
    let remaining: Vec<u64> =
        decisions.into_iter().map(|decision| decision.unwrap().remaining).collect();
    assert_eq!(remaining, [99, 98, 99, 97, 98]);
}

/// Answers too little: fewer states than charges, and none to a peek.
#[derive(Debug)]
struct Forgetful;

impl Store for Forgetful {
    fn capability(&self) -> Capability {
        ReferenceStore::new().capability()
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        let TimeSource::Given(now) = cx.time() else { panic!("this store has no clock") };
        let now = tollgate::authoring::Now::at(now);
        // A replay that names no quota, or evidence for one charge less than asked.
        Ok(match admission.request_id {
            Some(_) => Evidence::replayed(now, vec![None; admission.charges().len()], vec![]),
            None => Evidence::decided(now, vec![None; admission.charges().len() - 1]),
        })
    }

    async fn load(&self, _: &[Charge<'_>], _: CallContext<'_>) -> Result<Loaded> {
        Ok(Loaded::new(tollgate::authoring::Now::at(NOW), vec![]))
    }

    async fn reset(&self, _: Key<'_>, _: CallContext<'_>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn missing_evidence_never_passes_for_a_fresh_key() {
    let limiter = Limiter::with_clock(Forgetful, ManualClock::at(NOW)).build();
    let (a, b) = (per_hour("a", 10), per_hour("b", 10));
    let charges = [a.charge("k"), b.charge("k")];
    let code = |result: Result<Decision>| result.unwrap_err().code();
    assert_eq!(code(block_on(limiter.check(a.charge("k")))), Code::CorruptState);
    assert_eq!(code(block_on(limiter.check(&charges))), Code::CorruptState);
    let replay = Admission::of(&charges).request_id(RequestId::new("id").unwrap());
    assert_eq!(code(block_on(limiter.check(&replay))), Code::CorruptState);
    assert_eq!(code(block_on(limiter.peek(a.charge("k")))), Code::CorruptState);
    assert_eq!(block_on(limiter.forecast(a.charge("k"))).unwrap_err().code(), Code::CorruptState);
}
