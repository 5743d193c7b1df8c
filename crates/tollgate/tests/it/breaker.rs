//! The circuit breaker: opens after outages in a row, tries one call at a time, and never wedges.

use std::sync::Arc;
use std::time::Duration;

use tollgate::limiter::BreakerConfig;
use tollgate::{Code, Decision, Limiter, ManualClock, Micros, OutageMode, Result};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::fault::{Fault, Faulty};
use tollgate_testkit::runtime::block_on;

use crate::support::{Call, NOW, faulty, per_hour, poll};

const OPEN_FOR: Duration = Duration::from_secs(1);
/// The time between two probes varies by a quarter.
const EARLIEST_PROBE: Micros = 750_000;
const LATEST_PROBE: Micros = 1_250_000;

struct Bench {
    clock: ManualClock,
    store: Arc<Faulty<ReferenceStore>>,
    limiter: Limiter<Arc<Faulty<ReferenceStore>>>,
}

impl Bench {
    /// A breaker that opens after three outages in a row.
    fn new(faults: impl IntoIterator<Item = Fault>) -> Self {
        Self::with(BreakerConfig::default().failures(3).open_for(OPEN_FOR), faults)
    }

    fn with(config: BreakerConfig, faults: impl IntoIterator<Item = Fault>) -> Self {
        let clock = ManualClock::at(NOW);
        let store = faulty(&clock, faults);
        let limiter = Limiter::with_clock(store.clone(), clock.clone()).breaker(config).build();
        Self { clock, store, limiter }
    }

    fn check(&self) -> Decision {
        block_on(self.limiter.check(per_hour("p", 1_000).charge("k"))).unwrap()
    }

    /// Checks, and says whether the store was asked.
    fn calls_the_store(&self) -> bool {
        let before = self.store.calls();
        self.check();
        self.store.calls() > before
    }

    fn opened() -> Self {
        let bench = Self::new([Fault::After; 3]);
        (0..3).for_each(|_| assert!(bench.calls_the_store()));
        assert!(!bench.calls_the_store(), "open");
        bench
    }
}

#[test]
fn it_opens_after_enough_outages_in_a_row_and_fails_at_once() {
    let bench = Bench::new([Fault::After; 3]);
    for _ in 0..3 {
        assert!(bench.calls_the_store());
    }
    for _ in 0..5 {
        let decision = bench.check();
        assert_eq!(decision.degraded, Some(OutageMode::Open), "the mode decides");
    }
    assert_eq!(bench.store.calls(), 3, "the store was not asked");
    let stats = bench.limiter.stats();
    assert_eq!((stats.store_failures, stats.breaker_rejections), (3, 5));
    let limit = per_hour("p", 1_000);
    let error = block_on(bench.limiter.peek(limit.charge("k"))).unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
}

#[test]
fn an_answer_in_between_starts_the_count_over() {
    let bench = Bench::new([
        Fault::After,
        Fault::After,
        Fault::None,
        Fault::After,
        Fault::After,
        Fault::Garbage,
        Fault::After,
        Fault::After,
    ]);
    let limit = per_hour("p", 1_000);
    for _ in 0..8 {
        // The garbage is an error, but it is an answer.
        let _ = block_on(bench.limiter.check(limit.charge("k")));
    }
    assert!(bench.calls_the_store(), "never three in a row");
}

#[test]
fn what_is_refused_before_the_store_is_asked_is_no_sign_of_life() {
    let bench =
        Bench::new([Fault::After, Fault::Refuse, Fault::After, Fault::Refuse, Fault::After]);
    let limit = per_hour("p", 1_000);
    for _ in 0..5 {
        let _ = block_on(bench.limiter.check(limit.charge("k")));
    }
    assert!(!bench.calls_the_store(), "three outages, and nothing that was answered");
    // One that tries whether the store is back has learnt nothing, and so does a batch.
    bench.clock.set(NOW + LATEST_PROBE);
    bench.store.then([Fault::Refuse, Fault::Refuse, Fault::After]);
    let error = block_on(bench.limiter.check(limit.charge("k"))).unwrap_err();
    assert_eq!(error.code(), Code::Unsupported);
    let charges = [limit.charge("a"), limit.charge("b")];
    assert!(block_on(bench.limiter.check_batch(&charges)).iter().all(Result::is_err));
    assert!(bench.calls_the_store(), "the next may try");
    assert!(!bench.calls_the_store(), "and has found that it is not");
}

#[test]
fn outages_of_batches_count_as_well() {
    let bench = Bench::new([Fault::After; 3]);
    let limit = per_hour("p", 1_000);
    let charges = [limit.charge("a"), limit.charge("b")];
    for _ in 0..3 {
        let decided = block_on(bench.limiter.check_batch(&charges));
        assert!(decided.iter().all(|one| one.as_ref().unwrap().degraded.is_some()));
    }
    assert_eq!((bench.store.calls(), bench.limiter.stats().store_failures), (3, 3));
    let decided = block_on(bench.limiter.check_batch(&charges));
    assert!(decided.iter().all(|one| one.as_ref().unwrap().degraded.is_some()));
    assert_eq!(bench.store.calls(), 3, "open");
}

#[test]
fn it_stays_open_for_its_time_and_closes_on_success() {
    let bench = Bench::opened();
    bench.clock.set(NOW + EARLIEST_PROBE - 1);
    assert!(!bench.calls_the_store(), "a microsecond before");
    bench.clock.set(NOW + LATEST_PROBE);
    assert!(bench.calls_the_store(), "the probe");
    assert_eq!(bench.check().degraded, None, "closed again");
}

#[test]
fn it_opens_again_when_the_probe_fails() {
    let bench = Bench::opened();
    for round in 1..=4 {
        bench.store.then([Fault::After]);
        bench.clock.set(NOW + (round - 1) * LATEST_PROBE + EARLIEST_PROBE - 1);
        assert!(!bench.calls_the_store(), "for the whole time");
        bench.clock.set(NOW + round * LATEST_PROBE);
        assert!(bench.calls_the_store(), "the probe");
        assert!(!bench.calls_the_store(), "one failure is enough");
    }
}

fn start<'a>(bench: &'a Bench, limit: &'a tollgate::Limit) -> Call<'a, Result<Decision>> {
    Box::pin(bench.limiter.check(limit.charge("k")))
}

#[test]
fn one_call_at_a_time_tries_whether_the_store_is_back() {
    let bench = Bench::opened();
    let limit = per_hour("p", 1_000);
    bench.store.then([Fault::Delay(50_000)]);
    bench.clock.advance(Duration::from_micros(LATEST_PROBE));
    let calls = bench.store.calls();
    let mut probe = start(&bench, &limit);
    assert!(poll(&mut probe).is_none());
    for _ in 0..10 {
        assert_eq!(bench.check().degraded, Some(OutageMode::Open));
    }
    assert_eq!(bench.store.calls(), calls + 1, "only the probe");
    bench.clock.advance(Duration::from_millis(50));
    assert_eq!(poll(&mut probe).unwrap().unwrap().degraded, None);
    assert!(bench.calls_the_store(), "closed");
}

#[test]
fn a_probe_that_is_dropped_does_not_wedge_it() {
    let bench = Bench::opened();
    let limit = per_hour("p", 1_000);
    bench.store.then([Fault::Hang; 3]);
    bench.clock.advance(Duration::from_micros(LATEST_PROBE));
    for _ in 0..3 {
        let mut probe = start(&bench, &limit);
        assert!(poll(&mut probe).is_none());
        assert!(!bench.calls_the_store(), "a probe is under way");
        drop(probe);
    }
    assert!(bench.calls_the_store(), "the next call is the probe");
    assert_eq!(bench.check().degraded, None);
}

#[test]
fn a_probe_that_times_out_opens_it_again() {
    let bench = Bench::opened();
    let limit = per_hour("p", 1_000);
    bench.store.then([Fault::Hang]);
    bench.clock.advance(Duration::from_micros(LATEST_PROBE));
    let mut probe = start(&bench, &limit);
    assert!(poll(&mut probe).is_none());
    bench.clock.advance(Duration::from_millis(100));
    assert_eq!(poll(&mut probe).unwrap().unwrap().degraded, Some(OutageMode::Open));
    assert!(!bench.calls_the_store());
    bench.clock.advance(Duration::from_micros(LATEST_PROBE));
    assert!(bench.calls_the_store());
    assert_eq!(bench.check().degraded, None);
}

#[test]
fn a_refusal_says_when_the_store_is_asked_again() {
    let bench = Bench::opened();
    let closed = per_hour("p", 1_000).on_outage(OutageMode::Closed);
    bench.clock.advance(Duration::from_millis(300));
    let refused = block_on(bench.limiter.check(closed.charge("k"))).unwrap();
    let retry_after = refused.retry_after_ms.unwrap();
    assert!((450..=950).contains(&retry_after), "{retry_after} ms");
    bench.clock.advance(Duration::from_millis(retry_after));
    assert!(block_on(bench.limiter.check(closed.charge("k"))).unwrap().is_allowed());
}

#[test]
fn zero_failures_turn_it_off() {
    let off = BreakerConfig::default().failures(0).open_for(OPEN_FOR);
    let bench = Bench::with(off, [Fault::After; 20]);
    for _ in 0..20 {
        assert!(bench.calls_the_store());
    }
    assert_eq!(bench.limiter.stats().breaker_rejections, 0);
}

#[test]
fn a_clock_that_steps_back_does_not_keep_it_open() {
    let bench = Bench::opened();
    bench.clock.set(NOW - 3_600_000_000);
    assert!(bench.calls_the_store(), "an hour back must not mean an hour open");
    assert_eq!(bench.check().degraded, None);
}

#[test]
fn it_is_safe_among_threads() {
    let config = BreakerConfig::default().failures(3).open_for(OPEN_FOR);
    let clock = ManualClock::at(NOW);
    let store =
        Arc::new(Faulty::scripted(ReferenceStore::new(), clock.clone(), [Fault::After; 40]));
    let limiter = Limiter::with_clock(store, clock.clone()).breaker(config).build();
    let limit = per_hour("p", 1_000_000);
    for _ in 0..40 {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..50).for_each(|_| drop(block_on(limiter.check(limit.charge("k")))));
                });
            }
        });
        clock.advance(Duration::from_micros(LATEST_PROBE));
    }
    let decision = block_on(limiter.check(limit.charge("k"))).unwrap();
    assert_eq!(decision.degraded, None, "healthy again once the faults were used up");
    let stats = limiter.stats();
    assert_eq!(stats.store_failures, 40);
    assert_eq!(stats.degraded_open, stats.store_failures + stats.breaker_rejections);
}
