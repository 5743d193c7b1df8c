//! Faults happen as planned, and do to the store behind them what they say.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate_core::algorithm::Gcra;
use tollgate_core::store::{CallContext, Evidence, Store};
use tollgate_core::{Admission, Code, Limit, ManualClock, Quota, Result};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::derive::decisions_of;
use tollgate_testkit::fault::{Fault, Faulty};
use tollgate_testkit::runtime::block_on;

const NOW: CallContext<'static> = CallContext::at(1_700_000_000_000_000);

fn limit() -> Limit {
    Limit::new("faults", Gcra::new(Quota::per_hour(10)).unwrap()).unwrap()
}

fn charge(store: &impl Store, limit: &Limit) -> Result<Evidence> {
    block_on(store.admit(&Admission::of(&[limit.charge("k")]), NOW))
}

/// Units taken from the store behind the faults.
fn taken(store: &Faulty<ReferenceStore>, limit: &Limit) -> u64 {
    let charges = [limit.charge("k")];
    let admission = Admission::of(&charges);
    let outcome = block_on(store.inner().admit(&admission, NOW)).unwrap();
    9 - decisions_of(&admission, &outcome).unwrap().decisions[0].remaining
}

#[test]
fn a_fault_before_applies_nothing_and_says_so() {
    let (limit, clock) = (limit(), ManualClock::at(0));
    let store = Faulty::scripted(ReferenceStore::new(), clock, [Fault::Before]);
    let error = charge(&store, &limit).unwrap_err();
    assert_eq!((error.code(), error.is_not_sent()), (Code::StoreUnavailable, true));
    assert_eq!(taken(&store, &limit), 0);
    assert!(charge(&store, &limit).is_ok(), "the script is used up");
    assert_eq!(store.calls(), 2);
}

#[test]
fn a_fault_after_applies_and_does_not_say_so() {
    let (limit, clock) = (limit(), ManualClock::at(0));
    let store = Faulty::scripted(ReferenceStore::new(), clock, [Fault::After]);
    let error = charge(&store, &limit).unwrap_err();
    assert_eq!((error.code(), error.is_not_sent()), (Code::StoreUnavailable, false));
    assert_eq!(taken(&store, &limit), 1);
}

#[test]
fn a_delay_ends_when_the_clock_has_moved() {
    let (limit, clock) = (limit(), ManualClock::at(0));
    let store = Faulty::scripted(ReferenceStore::new(), clock.clone(), [Fault::Delay(1_000)]);
    let charges = [limit.charge("k")];
    let admission = Admission::of(&charges);
    let mut call = pin!(store.admit(&admission, NOW));
    let mut context = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut context).is_pending());
    clock.advance(Duration::from_micros(999));
    assert!(call.as_mut().poll(&mut context).is_pending());
    clock.advance(Duration::from_micros(1));
    assert!(matches!(call.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
}

#[test]
fn a_hanging_call_never_answers_and_applies_nothing() {
    let (limit, clock) = (limit(), ManualClock::at(0));
    let store = Faulty::scripted(ReferenceStore::new(), clock.clone(), [Fault::Hang]);
    {
        let charges = [limit.charge("k")];
        let admission = Admission::of(&charges);
        let mut call = pin!(store.admit(&admission, NOW));
        for _ in 0..10 {
            clock.advance(Duration::from_secs(3_600));
            assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    }
    assert_eq!(taken(&store, &limit), 0);
}

#[test]
fn garbage_is_refused_as_corrupt() {
    let (limit, clock) = (limit(), ManualClock::at(0));
    let store = Faulty::scripted(ReferenceStore::new(), clock, [Fault::Garbage]);
    let charges = [limit.charge("k")];
    let admission = Admission::of(&charges);
    let outcome = block_on(store.admit(&admission, NOW)).unwrap();
    let refused = decisions_of(&admission, &outcome).unwrap_err();
    assert_eq!(refused.code(), Code::CorruptState);
    assert_eq!(taken(&store, &limit), 0);
}

#[test]
fn seeded_faults_repeat() {
    let limit = limit();
    let run = |seed| {
        let store = Faulty::seeded(ReferenceStore::new(), ManualClock::at(0), seed, 300);
        let mut context = Context::from_waker(Waker::noop());
        let answers: Vec<Option<bool>> = (0..100)
            .map(|_| {
                let charges = [limit.charge("k")];
                let admission = Admission::of(&charges);
                let mut call = pin!(store.admit(&admission, NOW));
                match call.as_mut().poll(&mut context) {
                    Poll::Ready(answer) => Some(answer.is_ok()),
                    Poll::Pending => None,
                }
            })
            .collect();
        answers
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
    let failed = run(7).iter().filter(|answer| **answer != Some(true)).count();
    assert!((10..60).contains(&failed), "{failed} of 100 calls failed");
}
