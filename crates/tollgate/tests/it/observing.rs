//! What an operator sees: counters, events at most once per second, and clocks that disagree.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::limiter::{BreakerConfig, Degradation, Observer};
use tollgate::store::BoxStore;
use tollgate::{Admission, Code, Limiter, ManualClock, OutageMode, RequestId};
use tollgate_testkit::fault::Fault;
use tollgate_testkit::model::Kind;
use tollgate_testkit::runtime::block_on;

use crate::support::{NOW, SECOND, charge, compare_and_swap, faulty, limit_of, per_hour};

#[derive(Clone, Debug, Default)]
struct Notes {
    degraded: Arc<Mutex<Vec<(OutageMode, Code, u64)>>>,
    reasons: Arc<Mutex<Vec<String>>>,
    behind: Arc<Mutex<Vec<(String, u64)>>>,
}

impl Observer for Notes {
    fn degraded(&self, event: &Degradation<'_>) {
        self.degraded.lock().unwrap().push((event.mode, event.code, event.decisions));
        self.reasons.lock().unwrap().push(event.reason.to_owned());
    }

    fn clock_behind(&self, policy: &str, behind_ms: u64) {
        self.behind.lock().unwrap().push((policy.to_owned(), behind_ms));
    }
}

#[test]
fn degraded_decisions_are_reported_at_most_once_per_second_with_their_number() {
    let (clock, notes) = (ManualClock::at(NOW), Notes::default());
    let store = faulty(&clock, vec![Fault::After; 5]);
    let long = BreakerConfig::default().open_for(Duration::from_secs(60));
    let limiter = Limiter::with_clock(store, clock.clone()).breaker(long);
    let limiter = limiter.observer(notes.clone()).build();
    let limit = per_hour("p", 10);
    let check = |times: u64| {
        (0..times).for_each(|_| drop(block_on(limiter.check(limit.charge("k"))).unwrap()));
    };
    check(20);
    let reported = || std::mem::take(&mut *notes.degraded.lock().unwrap());
    assert_eq!(reported(), [(OutageMode::Open, Code::StoreUnavailable, 1)]);
    clock.advance(Duration::from_micros(999_999));
    check(1);
    assert_eq!(reported(), [], "not yet");
    clock.advance(Duration::from_micros(1));
    check(1);
    assert_eq!(reported(), [(OutageMode::Open, Code::StoreUnavailable, 21)]);
    let stats = limiter.stats();
    assert_eq!(stats.degraded_open, 22);
    assert_eq!((stats.store_failures, stats.breaker_rejections), (5, 17));
}

#[test]
fn each_mode_is_reported_on_its_own() {
    let (clock, notes) = (ManualClock::at(NOW), Notes::default());
    let store = faulty(&clock, vec![Fault::After; 3]);
    let limiter = Limiter::with_clock(store, clock).observer(notes.clone()).build();
    let modes = [OutageMode::Open, OutageMode::Closed, OutageMode::Local];
    for mode in modes {
        let limit = per_hour("p", 10).on_outage(mode);
        block_on(limiter.check(limit.charge("k"))).unwrap();
    }
    let expected = modes.map(|mode| (mode, Code::StoreUnavailable, 1));
    assert_eq!(*notes.degraded.lock().unwrap(), expected);
    let stats = limiter.stats();
    assert_eq!((stats.degraded_open, stats.degraded_closed, stats.degraded_local), (1, 1, 1));
}

/// Also by those that were decided without asking the store: what matters is why it is not asked.
#[test]
fn the_reason_is_what_the_store_failed_with() {
    let (clock, notes) = (ManualClock::at(NOW), Notes::default());
    let store = faulty(&clock, vec![Fault::After; 5]);
    let limiter = Limiter::with_clock(store, clock).observer(notes.clone()).build();
    let reasons = || std::mem::take(&mut *notes.reasons.lock().unwrap());
    let check = |mode| {
        let limit = per_hour("p", 10).on_outage(mode);
        block_on(limiter.check(limit.charge("k"))).unwrap()
    };
    (0..5).for_each(|_| drop(check(OutageMode::Open)));
    let [reason] = reasons().try_into().unwrap();
    assert!(reason.starts_with("a planned fault"), "{reason}");
    check(OutageMode::Closed);
    assert_eq!((limiter.stats().breaker_rejections, reasons()), (1, vec![reason]));
}

#[test]
fn a_clock_that_steps_back_does_not_silence_events() {
    let (clock, notes) = (ManualClock::at(NOW), Notes::default());
    let store = faulty(&clock, vec![Fault::After; 3]);
    let limiter = Limiter::with_clock(store, clock.clone()).observer(notes.clone()).build();
    let limit = per_hour("p", 10);
    block_on(limiter.check(limit.charge("k"))).unwrap();
    clock.set(NOW - 3_600 * SECOND);
    block_on(limiter.check(limit.charge("k"))).unwrap();
    block_on(limiter.check(limit.charge("k"))).unwrap();
    assert_eq!(notes.degraded.lock().unwrap().len(), 2);
}

#[test]
fn every_event_is_reported_once_among_threads() {
    let (clock, notes) = (ManualClock::at(NOW), Notes::default());
    let store = faulty(&clock, vec![Fault::After; 100_000]);
    let limiter = Limiter::with_clock(store, clock.clone()).observer(notes.clone()).build();
    let limit = per_hour("p", 10);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    block_on(limiter.check(limit.charge("k"))).unwrap();
                    clock.advance(Duration::from_millis(7));
                }
            });
        }
    });
    clock.advance(Duration::from_secs(2));
    block_on(limiter.check(limit.charge("k"))).unwrap();
    let reported: u64 = notes.degraded.lock().unwrap().iter().map(|(.., number)| number).sum();
    assert_eq!((reported, limiter.stats().degraded_open), (2_001, 2_001));
}

#[test]
fn a_key_that_a_clock_ahead_has_charged_is_noticed() {
    for kind in Kind::ALL {
        let store = Arc::new(compare_and_swap());
        let notes = Notes::default();
        let (ahead, clock) = (ManualClock::at(NOW + 3_600 * SECOND), ManualClock::at(NOW));
        let fast = Limiter::with_clock(BoxStore::new(store.clone()), ahead).build();
        let limiter = Limiter::with_clock(store, clock.clone()).observer(notes.clone()).build();
        let limit = limit_of(kind, 10, Duration::from_secs(60));
        block_on(fast.check(charge(&limit, "k", 10))).unwrap();
        for _ in 0..5 {
            let frozen = block_on(limiter.check(limit.charge("k"))).unwrap();
            assert!(!frozen.is_allowed(), "{}", kind.name());
        }
        assert_eq!(limiter.stats().clock_behind, 5, "{}", kind.name());
        let reported = std::mem::take(&mut *notes.behind.lock().unwrap());
        assert_eq!(reported.len(), 1, "{}: at most once per second", kind.name());
        let (policy, behind_ms) = &reported[0];
        assert_eq!(policy, kind.name());
        assert!((3_500_000..=3_600_000).contains(behind_ms), "{}: {behind_ms} ms", kind.name());
        // The cure.
        block_on(limiter.reset(limit.charge("k"))).unwrap();
        assert!(block_on(limiter.check(limit.charge("k"))).unwrap().is_allowed());
        assert_eq!(limiter.stats().clock_behind, 5, "{}", kind.name());
        assert_eq!(fast.stats().clock_behind, 0, "{}", kind.name());
    }
}

#[test]
fn clocks_that_nearly_agree_are_not_reported() {
    for kind in Kind::ALL {
        let store = Arc::new(compare_and_swap());
        let fast = Limiter::with_clock(store.clone(), ManualClock::at(NOW + SECOND)).build();
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        let limit = limit_of(kind, 10, Duration::from_secs(60));
        block_on(fast.check(charge(&limit, "k", 10))).unwrap();
        block_on(limiter.check(limit.charge("k"))).unwrap();
        assert_eq!(limiter.stats().clock_behind, 0, "{}", kind.name());
    }
}

#[test]
fn a_replay_reports_no_clock() {
    let store = Arc::new(compare_and_swap());
    let fast = Limiter::with_clock(store.clone(), ManualClock::at(NOW + 60 * SECOND)).build();
    let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
    let limit = limit_of(Kind::FixedWindow, 10, Duration::from_secs(3_600));
    block_on(fast.check(limit.charge("k"))).unwrap();
    let charges = [limit.charge("k")];
    let admission = Admission::of(&charges).request_id(RequestId::new("id").unwrap());
    block_on(fast.check(&admission)).unwrap();
    block_on(limiter.check(&admission)).unwrap();
    assert_eq!(limiter.stats().clock_behind, 0);
}
