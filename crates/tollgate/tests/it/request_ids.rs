//! Request ids: charged at most once, answered the same, bound to what was asked.

use std::time::Duration;

use tollgate::algorithm::{CustomAlgorithm, SlidingLog};
use tollgate::store::BoxStore;
use tollgate::{
    Admission, Charge, Code, Decision, Limit, Limiter, ManualClock, Quota, Receipt, RequestId,
    Result, Verdict,
};
use tollgate_testkit::model::Kind;
use tollgate_testkit::runtime::block_on;

use crate::support::{Allowance, MS, NOW, SECOND, charge, limit_of, per_hour, stores};

const HOUR: Duration = Duration::from_secs(3_600);

fn once(limiter: &Limiter<BoxStore>, charges: &[Charge<'_>], id: &str) -> Result<Decision> {
    block_on(limiter.check(&Admission::of(charges).request_id(RequestId::new(id).unwrap())))
}

fn left(limiter: &Limiter<BoxStore>, limit: &Limit, subject: &str) -> u64 {
    block_on(limiter.forecast(limit.charge(subject))).unwrap().spendable_now
}

fn limiters(clock: &ManualClock) -> Vec<(&'static str, Limiter<BoxStore>)> {
    let limiter = |store| Limiter::with_clock(store, clock.clone()).build();
    stores().into_iter().map(|(name, store)| (name, limiter(store))).collect()
}

#[test]
fn a_replay_returns_the_saved_decision_and_charges_nothing() {
    for kind in Kind::ALL {
        let clock = ManualClock::at(NOW);
        for (name, limiter) in limiters(&clock) {
            clock.set(NOW);
            let context = format!("{} on {name}", kind.name());
            let limit = limit_of(kind, 10, HOUR);
            let first = once(&limiter, &[charge(&limit, "k", 3)], "id").unwrap();
            assert_eq!((first.remaining, first.replayed), (7, false), "{context}");
            block_on(limiter.check(charge(&limit, "k", 7))).unwrap();
            clock.set(NOW + 17 * SECOND);
            for _ in 0..3 {
                let replay = once(&limiter, &[charge(&limit, "k", 3)], "id").unwrap();
                assert_eq!(replay, first, "{context}: even though the key is empty now");
                assert!(replay.replayed, "{context}");
            }
            assert_eq!(left(&limiter, &limit, "k"), 0, "{context}");
        }
    }
}

#[test]
fn a_replay_returns_the_saved_decision_after_the_quota_changed() {
    for (old, new) in Kind::ALL.into_iter().zip(Kind::ALL.into_iter().rev()) {
        for (name, limiter) in limiters(&ManualClock::at(NOW)) {
            let context = format!("from {} to {} on {name}", old.name(), new.name());
            let limit = limit_of(old, 10, HOUR);
            let changed = limit.clone().replace_rule(limit_of(new, 4, HOUR).rule().clone());
            let first = once(&limiter, &[charge(&limit, "k", 5)], "id").unwrap();
            let replay = once(&limiter, &[charge(&changed, "k", 5)], "id").unwrap();
            assert_eq!(replay, first, "{context}");
            // The key is carried over at the next contact, and the replay is still the same.
            block_on(limiter.check(changed.charge("k"))).unwrap();
            let replay = once(&limiter, &[charge(&changed, "k", 5)], "id").unwrap();
            assert_eq!(replay, first, "{context}");
        }
    }
}

#[test]
fn a_replay_of_a_combination_is_the_combination() {
    for (name, limiter) in limiters(&ManualClock::at(NOW)) {
        let (a, b) = (per_hour("a", 10), per_hour("b", 5));
        let charges = [charge(&a, "k", 2), charge(&b, "k", 1), charge(&a, "k", 3)];
        let first = once(&limiter, &charges, "id").unwrap();
        assert_eq!((first.limit, first.remaining), (5, 4), "{name}");
        let replay = once(&limiter, &charges, "id").unwrap();
        assert_eq!(replay, first, "{name}");
        assert!(replay.replayed && replay.parts().iter().all(|part| part.replayed), "{name}");
        assert_eq!((left(&limiter, &a, "k"), left(&limiter, &b, "k")), (5, 4), "{name}");
    }
}

#[test]
fn the_same_id_with_another_request_is_a_conflict() {
    for (name, limiter) in limiters(&ManualClock::at(NOW)) {
        let (limit, other) = (per_hour("p", 10), per_hour("q", 10));
        once(&limiter, &[charge(&limit, "k", 3)], "id").unwrap();
        let requests: [&[Charge<'_>]; 3] = [
            &[charge(&limit, "k", 2)],
            &[charge(&limit, "k", 3), charge(&other, "k", 1)],
            &[charge(&limit, "k", 1), charge(&limit, "k", 2)],
        ];
        for charges in requests {
            let conflict = once(&limiter, charges, "id").unwrap_err();
            assert_eq!(conflict.code(), Code::IdempotencyConflict, "{name}: {charges:?}");
        }
        assert_eq!((left(&limiter, &limit, "k"), left(&limiter, &other, "k")), (7, 10), "{name}");
    }
}

#[test]
fn the_same_id_on_another_key_is_another_request() {
    for (name, limiter) in limiters(&ManualClock::at(NOW)) {
        let (limit, other) = (per_hour("p", 10), per_hour("q", 10));
        once(&limiter, &[charge(&limit, "k", 3)], "id").unwrap();
        assert_eq!(once(&limiter, &[charge(&limit, "l", 2)], "id").unwrap().remaining, 8, "{name}");
        assert_eq!(once(&limiter, &[charge(&other, "k", 1)], "id").unwrap().remaining, 9, "{name}");
    }
}

#[test]
fn a_denied_id_is_decided_anew() {
    let clock = ManualClock::at(NOW);
    for (name, limiter) in limiters(&clock) {
        clock.set(NOW);
        let limit = per_hour("p", 10);
        block_on(limiter.check(charge(&limit, "k", 10))).unwrap();
        let denied = once(&limiter, &[charge(&limit, "k", 2)], "id").unwrap();
        assert_eq!(denied.verdict, Verdict::Denied, "{name}");
        // Nothing was saved: neither a decision nor a payload.
        assert!(!once(&limiter, &[charge(&limit, "k", 3)], "id").unwrap().is_allowed(), "{name}");
        clock.set(NOW + denied.retry_after_ms.unwrap() * MS);
        let admitted = once(&limiter, &[charge(&limit, "k", 2)], "id").unwrap();
        assert!(admitted.is_allowed(), "{name}: a retry with the id is admitted after the wait");
        assert_eq!(once(&limiter, &[charge(&limit, "k", 2)], "id").unwrap(), admitted, "{name}");
    }
}

#[test]
fn a_refund_with_the_id_of_its_charge_is_no_replay_of_the_charge() {
    for (name, limiter) in limiters(&ManualClock::at(NOW)) {
        let limit = per_hour("p", 10);
        let asked = charge(&limit, "k", 3);
        let first = once(&limiter, &[asked], "id").unwrap();
        let refund = [asked.refund(first.receipt().unwrap())];
        // The id is bound to the charge; a refund that is allowed must have given the units back.
        let answer = once(&limiter, &refund, "id");
        let given_back = left(&limiter, &limit, "k") == 10;
        let code = answer.map(|_| ()).map_err(|error| error.code());
        assert!(
            matches!((code, given_back), (Err(Code::IdempotencyConflict), false) | (Ok(()), true)),
            "{name}: {code:?}, given back: {given_back}"
        );
        let refunded = once(&limiter, &refund, "another id").unwrap();
        assert_eq!(refunded.remaining, 10, "{name}");
        assert_eq!(once(&limiter, &refund, "another id").unwrap(), refunded, "{name}");
        let charged = once(&limiter, &[asked], "another id");
        assert_eq!(charged.unwrap_err().code(), Code::IdempotencyConflict, "{name}");
    }
}

#[test]
fn a_refund_with_an_id_gives_back_once() {
    for (name, limiter) in limiters(&ManualClock::at(NOW)) {
        let limit = per_hour("p", 10);
        block_on(limiter.check(charge(&limit, "k", 8))).unwrap();
        let refund = [charge(&limit, "k", 2).refund(Receipt::Newest)];
        for _ in 0..3 {
            assert_eq!(once(&limiter, &refund, "refund").unwrap().remaining, 4, "{name}");
        }
        assert_eq!(left(&limiter, &limit, "k"), 4, "{name}");
    }
}

#[test]
fn an_id_is_forgotten_after_its_time() {
    let clock = ManualClock::at(NOW);
    for (name, limiter) in limiters(&clock) {
        clock.set(NOW);
        let limit = per_hour("p", 10);
        let charges = [limit.charge("k")];
        let short = RequestId::new("id").unwrap().keep_for(Duration::from_secs(10));
        let admission = Admission::of(&charges).request_id(short);
        block_on(limiter.check(&admission)).unwrap();
        clock.set(NOW + 10 * SECOND - 1);
        block_on(limiter.check(&admission)).unwrap();
        assert_eq!(left(&limiter, &limit, "k"), 9, "{name}: still kept");
        clock.set(NOW + 10 * SECOND);
        block_on(limiter.check(&admission)).unwrap();
        assert_eq!(left(&limiter, &limit, "k"), 8, "{name}: another charge");
    }
}

#[test]
fn a_reset_keeps_request_ids() {
    for (name, limiter) in limiters(&ManualClock::at(NOW)) {
        let limit = per_hour("p", 10);
        let first = once(&limiter, &[charge(&limit, "k", 3)], "id").unwrap();
        block_on(limiter.reset(limit.charge("k"))).unwrap();
        assert_eq!(once(&limiter, &[charge(&limit, "k", 3)], "id").unwrap(), first, "{name}");
        assert_eq!(left(&limiter, &limit, "k"), 10, "{name}");
    }
}

#[test]
fn a_replay_under_a_quota_that_is_not_known_any_more_is_refused_and_not_made_up() {
    let custom = |units| Limit::new("p", CustomAlgorithm::new(Allowance(units))).unwrap();
    for (name, limiter) in limiters(&ManualClock::at(NOW)) {
        let (old, new) = (custom(10), custom(2));
        let first = once(&limiter, &[charge(&old, "k", 3)], "id").unwrap();
        assert_eq!(once(&limiter, &[charge(&old, "k", 3)], "id").unwrap(), first, "{name}");
        let unknown = once(&limiter, &[charge(&new, "k", 3)], "id").unwrap_err();
        assert_eq!(unknown.code(), Code::CorruptState, "{name}");
    }
}

#[test]
fn a_replay_on_a_long_log_repeats_every_number() {
    let clock = ManualClock::at(NOW);
    let log = SlidingLog::new(Quota::new(900, HOUR)).unwrap();
    let limit = Limit::new("log", log).unwrap();
    for (name, store) in stores() {
        let limiter = Limiter::with_clock(store, clock.clone()).build();
        let charges = [limit.charge("k")];
        let ask = |id: &str| once(&limiter, &charges, id).unwrap();
        for number in 0..60_u64 {
            clock.set(NOW + number * 7_001);
            let id = format!("id-{number}");
            let first = ask(&id);
            clock.set(NOW + number * 7_001 + 3);
            assert_eq!(ask(&id), first, "{name}, {id}");
        }
        let left = block_on(limiter.forecast(limit.charge("k"))).unwrap().spendable_now;
        assert_eq!(left, 840, "{name}: a replay has charged");
    }
}

#[test]
fn a_refund_under_an_id_gives_back_once() {
    let limit = per_hour("p", 5);
    for (name, store) in stores() {
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        let taken = [3, 2].map(|cost| block_on(limiter.check(charge(&limit, "k", cost))).unwrap());
        let receipt = taken[0].receipt().unwrap();
        let refund = [charge(&limit, "k", 3).refund(receipt)];
        let admission = Admission::of(&refund).request_id(RequestId::new("refund").unwrap());
        for attempt in 0..3 {
            let refunded = block_on(limiter.refund(&admission)).unwrap();
            assert_eq!(refunded.each[0].given_back, 3, "{name}, attempt {attempt}");
        }
        let left = block_on(limiter.forecast(limit.charge("k"))).unwrap().spendable_now;
        assert_eq!(left, 3, "{name}: given back more than once");
    }
}

/// Less, the same and more than was charged, with time between charge, settlement and replay.
#[test]
fn a_replay_of_a_settlement_repeats_every_number() {
    let clock = ManualClock::at(NOW);
    for kind in Kind::ALL {
        let limit = limit_of(kind, 10, HOUR);
        for (name, limiter) in limiters(&clock) {
            for to in [1, 4, 9, 17] {
                let subject = to.to_string();
                clock.set(NOW);
                let taken = block_on(limiter.check(charge(&limit, &subject, 4))).unwrap();
                let settled = charge(&limit, &subject, 4).settle(taken.receipt().unwrap(), to);
                let id = format!("settle {to}");
                let again = |at| {
                    clock.set(at);
                    let settled = [settled];
                    let admission =
                        Admission::of(&settled).request_id(RequestId::new(&id).unwrap());
                    block_on(limiter.settle(&admission)).unwrap()
                };
                let first = again(NOW + 17 * MS);
                let mut second = again(NOW + 40 * MS);
                assert!(second.standing.replayed, "{name}, {kind:?}, {to}");
                second.standing.replayed = false;
                assert_eq!(second, first, "{name}, {kind:?}, {to}");
            }
        }
    }
}
