//! Failure modes: who decides when the store cannot answer, and which errors are no outages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tollgate::algorithm::Gcra;
use tollgate::authoring::Key;
use tollgate::store::{CallContext, Capability, Evidence, Loaded, Store};
use tollgate::{
    Admission, Charge, Code, Cost, Decision, Error, Limit, Limiter, ManualClock, OutageMode, Quota,
    Receipt, Result, Verdict,
};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::fault::{Fault, Faulty};
use tollgate_testkit::runtime::block_on;

use crate::support::{MS, NOW, charge, faulty, per_hour};

type Faults = Arc<Faulty<ReferenceStore>>;

fn limiter(faults: impl IntoIterator<Item = Fault>) -> (Limiter<Faults>, Faults) {
    let clock = ManualClock::at(NOW);
    let store = faulty(&clock, faults);
    (Limiter::with_clock(store.clone(), clock).build(), store)
}

fn mode(policy: &str, units: u64, mode: OutageMode) -> Limit {
    per_hour(policy, units).on_outage(mode)
}

#[test]
fn open_is_the_default_and_admits_and_says_so() {
    let (limiter, _) = limiter([Fault::After, Fault::After]);
    for limit in [per_hour("p", 10), mode("p", 10, OutageMode::Open)] {
        let decision = block_on(limiter.check(limit.charge("k"))).unwrap();
        assert!(decision.is_allowed());
        assert_eq!(decision.degraded, Some(OutageMode::Open));
        assert_eq!((decision.limit, decision.remaining), (10, 0), "nothing is known to be left");
        assert_eq!(decision.retry_after_ms, Some(0));
        assert_eq!(decision.reset_at_ms, NOW / MS);
    }
    assert_eq!(limiter.stats().degraded_open, 2);
}

#[test]
fn open_grants_as_much_of_a_range_as_a_fresh_key_would() {
    let (limiter, _) = limiter([Fault::After; 3]);
    let limit = mode("p", 10, OutageMode::Open);
    for ((min, max), granted) in [((1, 4), Some(4)), ((1, 40), Some(10)), ((11, 40), None)] {
        let range = charge(&limit, "k", min).up_to(Cost::new(max).unwrap());
        let decision = block_on(limiter.check(range)).unwrap();
        assert_eq!(decision.degraded, Some(OutageMode::Open));
        assert_eq!(decision.granted().map(Cost::get), granted, "{min} to {max}");
        assert_eq!(decision.is_allowed(), granted.is_some());
    }
}

#[test]
fn closed_refuses_and_says_so() {
    let (limiter, _) = limiter([Fault::After]);
    let limit = mode("p", 10, OutageMode::Closed);
    let decision = block_on(limiter.check(limit.charge("k"))).unwrap();
    assert_eq!((decision.verdict, decision.degraded), (Verdict::Denied, Some(OutageMode::Closed)));
    assert!(decision.retry_after_ms.unwrap() >= 1, "a denial says when to come back");
    assert_eq!(limiter.stats().degraded_closed, 1);
}

#[test]
fn local_decides_alone_and_says_so() {
    let (limiter, _) = limiter([Fault::After; 4]);
    let limit = mode("p", 3, OutageMode::Local);
    let decisions: Vec<Decision> =
        (0..4).map(|_| block_on(limiter.check(limit.charge("k"))).unwrap()).collect();
    assert!(decisions.iter().all(|decision| decision.degraded == Some(OutageMode::Local)));
    let allowed: Vec<bool> = decisions.iter().map(Decision::is_allowed).collect();
    assert_eq!(allowed, [true, true, true, false]);
    assert_eq!(limiter.stats().degraded_local, 4);
}

#[test]
fn a_healthy_decision_is_not_marked() {
    let (limiter, _) = limiter([]);
    for of in [OutageMode::Open, OutageMode::Closed, OutageMode::Local] {
        let limit = mode("p", 10, of);
        assert_eq!(block_on(limiter.check(limit.charge("k"))).unwrap().degraded, None);
    }
    assert_eq!(limiter.stats(), tollgate::limiter::Stats::default());
}

#[test]
fn the_strictest_mode_of_a_combination_wins() {
    let (open, closed, local) = (
        mode("open", 10, OutageMode::Open),
        mode("closed", 10, OutageMode::Closed),
        mode("local", 2, OutageMode::Local),
    );
    let (limiter, _) = limiter([Fault::After; 6]);
    let check = |limits: &[&Limit]| {
        let charges: Vec<_> = limits.iter().map(|limit| limit.charge("k")).collect();
        block_on(limiter.check(&charges)).unwrap()
    };
    let decision = check(&[&open, &local, &closed]);
    assert_eq!((decision.verdict, decision.degraded), (Verdict::Denied, Some(OutageMode::Closed)));
    assert_eq!(decision.binding().unwrap().as_str(), "closed");
    for expected in [true, true, false] {
        let decision = check(&[&open, &local]);
        assert_eq!(decision.degraded, Some(OutageMode::Local));
        assert_eq!(decision.is_allowed(), expected, "the closed combination charged nothing");
        assert_eq!(decision.binding().unwrap().as_str(), "local");
    }
    let decision = check(&[&open, &open]);
    assert_eq!((decision.is_allowed(), decision.degraded), (true, Some(OutageMode::Open)));
}

#[test]
fn what_can_never_be_granted_is_never_in_an_outage_too() {
    for of in [OutageMode::Open, OutageMode::Closed, OutageMode::Local] {
        let (limiter, _) = limiter([Fault::After; 3]);
        let (limit, other) = (mode("p", 5, of), mode("q", 9, of));
        let never = block_on(limiter.check(charge(&limit, "k", 6))).unwrap();
        assert_eq!((never.verdict, never.retry_after_ms), (Verdict::Never, None), "{of:?}");
        assert_eq!(never.degraded, Some(of));
        let charges = [other.charge("k"), charge(&limit, "k", 6)];
        let never = block_on(limiter.check(&charges)).unwrap();
        assert_eq!(never.verdict, Verdict::Never, "{of:?}");
        assert_eq!(never.binding().unwrap().as_str(), "p");
        let charges = [charge(&limit, "k", 3), charge(&limit, "k", 3)];
        let never = block_on(limiter.check(&charges)).unwrap();
        assert_eq!(never.verdict, Verdict::Never, "{of:?}: 6 of 5 in two charges");
    }
}

#[test]
fn every_element_of_a_batch_is_decided_by_its_own_mode() {
    let (limiter, store) = limiter([Fault::After]);
    let limits = [
        mode("open", 10, OutageMode::Open),
        mode("closed", 10, OutageMode::Closed),
        mode("local", 1, OutageMode::Local),
    ];
    let charges = [0, 1, 2, 2].map(|of: usize| limits[of].charge("k"));
    let decided = block_on(limiter.check_batch(&charges));
    let seen: Vec<(bool, Option<OutageMode>)> = decided
        .into_iter()
        .map(|decision| decision.unwrap())
        .map(|decision| (decision.is_allowed(), decision.degraded))
        .collect();
    let expected = [
        (true, Some(OutageMode::Open)),
        (false, Some(OutageMode::Closed)),
        (true, Some(OutageMode::Local)),
        (false, Some(OutageMode::Local)),
    ];
    assert_eq!(seen, expected);
    assert_eq!(store.calls(), 1, "sent already: not tried again");
}

#[test]
fn looking_refunding_and_resetting_are_never_degraded() {
    let (limiter, _) = limiter([Fault::After; 4]);
    let limit = mode("p", 10, OutageMode::Open);
    let code = |error: Error| error.code();
    let peeked = block_on(limiter.peek(limit.charge("k")));
    assert_eq!(peeked.map_err(code), Err(Code::StoreUnavailable));
    let forecast = block_on(limiter.forecast(limit.charge("k")));
    assert_eq!(forecast.map_err(code), Err(Code::StoreUnavailable));
    let refunded = block_on(limiter.refund(limit.charge("k").refund(Receipt::Newest)));
    assert_eq!(refunded.map_err(code), Err(Code::StoreUnavailable));
    let reset = block_on(limiter.reset(limit.charge("k")));
    assert_eq!(reset.map_err(code), Err(Code::StoreUnavailable));
    assert_eq!(limiter.stats().store_failures, 4);
    assert_eq!(limiter.stats().degraded_open, 0);
}

/// Refuses everything with one code.
#[derive(Debug)]
struct Refusing(Code);

impl Refusing {
    fn error(&self) -> Error {
        // Even an error that claims to be unsent is not tried again unless it is an outage.
        Error::new(self.0, "refused").not_sent()
    }
}

impl Store for Refusing {
    fn capability(&self) -> Capability {
        Capability::default()
    }

    async fn admit(&self, _: &Admission<'_>, _: CallContext<'_>) -> Result<Evidence> {
        Err(self.error())
    }

    async fn load(&self, _: &[Charge<'_>], _: CallContext<'_>) -> Result<Loaded> {
        Err(self.error())
    }

    async fn reset(&self, _: Key<'_>, _: CallContext<'_>) -> Result<()> {
        Err(self.error())
    }
}

#[test]
fn only_outages_are_decided_by_a_mode() {
    let codes = [
        (Code::StoreUnavailable, true),
        (Code::Timeout, true),
        (Code::ConflictExhausted, false),
        (Code::QueueFull, false),
        (Code::StoreFull, false),
        (Code::CorruptState, false),
        (Code::InvalidRequest, false),
        (Code::IdempotencyConflict, false),
        (Code::UnknownPolicy, false),
        (Code::Unauthorized, false),
        (Code::Forbidden, false),
        (Code::ConfigInvalid, false),
        (Code::Unsupported, false),
    ];
    for (code, is_outage) in codes {
        for of in [OutageMode::Open, OutageMode::Closed, OutageMode::Local] {
            let limiter = Limiter::with_clock(Refusing(code), ManualClock::at(NOW)).build();
            let limit = mode("p", 10, of);
            let one = block_on(limiter.check(limit.charge("k")));
            let many = block_on(limiter.check_batch(&[limit.charge("k")])).remove(0);
            for decided in [one, many] {
                match decided {
                    Ok(decision) => assert!(is_outage && decision.degraded == Some(of), "{code}"),
                    Err(error) => assert!(!is_outage && error.code() == code, "{code}"),
                }
            }
            let failures = if is_outage { 2 } else { 0 };
            assert_eq!(limiter.stats().store_failures, failures, "{code}");
        }
    }
}

#[test]
fn garbage_never_fails_open() {
    let (limiter, _) = limiter([Fault::Garbage; 3]);
    let limit = mode("p", 10, OutageMode::Open);
    let error = block_on(limiter.check(limit.charge("k"))).unwrap_err();
    assert_eq!(error.code(), Code::CorruptState);
    let error = block_on(limiter.peek(limit.charge("k"))).unwrap_err();
    assert_eq!(error.code(), Code::CorruptState);
    let error = block_on(limiter.check_batch(&[limit.charge("k")])).remove(0).unwrap_err();
    assert_eq!(error.code(), Code::CorruptState);
}

#[test]
fn a_call_that_was_not_sent_is_tried_once_more() {
    let (limiter, store) = limiter([Fault::Before]);
    let limit = per_hour("p", 10);
    let decision = block_on(limiter.check(limit.charge("k"))).unwrap();
    assert_eq!((decision.remaining, decision.degraded), (9, None));
    assert_eq!(store.calls(), 2);
    store.then([Fault::Before]);
    assert_eq!(
        block_on(limiter.check_batch(&[limit.charge("k")]))[0].as_ref().unwrap().remaining,
        8
    );
    assert_eq!(store.calls(), 4, "a batch too");
    assert_eq!(limiter.stats().store_failures, 0);
}

#[test]
fn a_call_is_tried_at_most_twice() {
    let (limiter, store) = limiter([Fault::Before, Fault::Before, Fault::None]);
    let limit = per_hour("p", 10);
    let decision = block_on(limiter.check(limit.charge("k"))).unwrap();
    assert_eq!(decision.degraded, Some(OutageMode::Open));
    assert_eq!((store.calls(), limiter.stats().store_failures), (2, 1));
}

#[test]
fn a_call_that_may_have_been_sent_is_not_tried_again() {
    let (limiter, store) = limiter([Fault::After]);
    let limit = per_hour("p", 10);
    let decision = block_on(limiter.check(limit.charge("k"))).unwrap();
    assert_eq!((decision.degraded, store.calls()), (Some(OutageMode::Open), 1));
    let left = block_on(limiter.forecast(limit.charge("k"))).unwrap().spendable_now;
    assert_eq!(left, 9, "it was charged, once");
}

#[test]
fn a_mode_belongs_to_the_limit_and_not_to_the_key() {
    let quota = || Gcra::new(Quota::per_hour(10)).unwrap();
    let closed = Limit::new("p", quota()).unwrap().on_outage(OutageMode::Closed);
    let open = Limit::new("p", quota()).unwrap();
    let (limiter, _) = limiter([Fault::After; 2]);
    assert!(!block_on(limiter.check(closed.charge("k"))).unwrap().is_allowed());
    assert!(block_on(limiter.check(open.charge("k"))).unwrap().is_allowed());
}

#[test]
fn the_mode_can_be_chosen_outage_by_outage() {
    let (limiter, _) = limiter([Fault::None, Fault::After, Fault::After, Fault::After]);
    let modes = [OutageMode::Closed, OutageMode::Local, OutageMode::Open];
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let limit = per_hour("p", 1).choose_on_outage(move |outage| {
        assert_eq!((outage.mode, outage.code), (OutageMode::Open, Code::StoreUnavailable));
        assert_eq!(outage.policy, &"p");
        modes[count.fetch_add(1, Relaxed)]
    });
    assert_eq!(block_on(limiter.check(limit.charge("k"))).unwrap().degraded, None);
    assert_eq!(asked.load(Relaxed), 0, "no outage, no choice");
    let decided = modes.map(|mode| {
        let decision = block_on(limiter.check(limit.charge("k"))).unwrap();
        assert_eq!(decision.degraded, Some(mode));
        decision.is_allowed()
    });
    // The unit that the store charged counts for the decision that is made alone.
    assert_eq!(decided, [false, false, true]);
    assert_eq!(asked.load(Relaxed), 3);
}
