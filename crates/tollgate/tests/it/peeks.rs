//! Looking, giving back and starting over: peek, forecast, refund, reset.

use std::time::Duration;

use tollgate::algorithm::{Anchor, FixedWindow, Gcra};
use tollgate::store::{BoxStore, Memory};
use tollgate::{
    Admission, Clock, Cost, Decision, Limit, Limiter, ManualClock, Quota, Receipt, Verdict,
};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::model::Kind;
use tollgate_testkit::rng::Rng;
use tollgate_testkit::runtime::block_on;

use crate::support::{MS, NOW, charge, limit_of, per_hour, stores};

fn limiters(clock: &ManualClock) -> Vec<(&'static str, Limiter<BoxStore>)> {
    let limiter = |store| Limiter::with_clock(store, clock.clone()).build();
    stores().into_iter().map(|(name, store)| (name, limiter(store))).collect()
}

/// Seven units per 14 ms: awkward, and even for two buckets.
fn awkward(kind: Kind) -> Limit {
    limit_of(kind, 7, Duration::from_micros(14_002))
}

#[test]
fn a_look_at_a_range_says_what_would_be_granted() {
    let clock = ManualClock::at(NOW);
    let (wide, narrow) = (per_hour("wide", 10), per_hour("narrow", 7));
    for (name, limiter) in limiters(&clock) {
        let three = Cost::new(3).unwrap();
        for (granted, left) in [(Some(3), 7), (Some(3), 4), (Some(1), 1), (None, 0)] {
            let charges = [&wide, &narrow].map(|limit| limit.charge("k").up_to(three));
            let peeked = block_on(limiter.peek(&charges)).unwrap();
            let check = block_on(limiter.check(&charges)).unwrap();
            for decision in [&peeked, &check] {
                assert_eq!(decision.granted().map(Cost::get), granted, "{name}: {decision:?}");
            }
            assert_eq!((peeked.verdict, peeked.remaining), (check.verdict, left), "{name}");
            assert!(peeked.parts().iter().all(|part| part.receipt().is_none()), "{name}");
        }
    }
}

#[test]
fn a_look_at_several_limits_says_what_a_check_of_them_says() {
    let clock = ManualClock::at(NOW);
    let second = Limit::new("second", Gcra::new(Quota::per_second(3)).unwrap()).unwrap();
    let day = Limit::new("day", Gcra::new(Quota::per_day(7)).unwrap()).unwrap();
    for (name, limiter) in limiters(&clock) {
        clock.set(NOW);
        let charges = [second.charge("k"), day.charge("k")];
        for step in 0..12_u64 {
            let peeked = block_on(limiter.peek(&charges)).unwrap();
            let ahead = block_on(limiter.forecast(&charges)).unwrap();
            assert_eq!(ahead.spendable_now, peeked.remaining, "{name} {step}");
            assert_eq!(ahead.limit, 3, "{name} {step}");
            let check = block_on(limiter.check(&charges)).unwrap();
            assert_eq!(peeked.verdict, check.verdict, "{name} {step}");
            assert_eq!(peeked.retry_after_ms, check.retry_after_ms, "{name} {step}");
            let less = u64::from(check.is_allowed());
            assert_eq!(peeked.remaining - less, check.remaining, "{name} {step}");
            if !check.is_allowed() {
                assert_eq!(peeked.binding(), check.binding(), "{name} {step}");
                let wait = check.retry_after_ms.unwrap();
                assert_eq!(
                    ahead.next_unit_at_ms,
                    Some(clock.now() / 1_000 + wait),
                    "{name} {step}"
                );
                clock.advance(Duration::from_millis(wait));
            }
        }
    }
}

#[test]
fn looking_consumes_nothing() {
    for kind in Kind::ALL {
        let (limit, clock) = (awkward(kind), ManualClock::at(NOW));
        let untouched = Limiter::with_clock(ReferenceStore::new(), clock.clone()).build();
        for (name, limiter) in limiters(&clock) {
            clock.set(NOW);
            block_on(untouched.reset(limit.charge("k"))).unwrap();
            let mut rng = Rng::new(1);
            for step in 0..200 {
                clock.advance(Duration::from_micros(rng.below(4_000)));
                for cost in [1, 7, 8, 100] {
                    let peeked = block_on(limiter.peek(charge(&limit, "k", cost))).unwrap();
                    assert_eq!(peeked.verdict == Verdict::Never, cost > 7);
                    block_on(limiter.forecast(limit.charge("k"))).unwrap();
                }
                let asked = charge(&limit, "k", rng.between(1, 3));
                let peeked = block_on(limiter.peek(asked)).unwrap();
                let decided = block_on(limiter.check(asked)).unwrap();
                let expected = block_on(untouched.check(asked)).unwrap();
                let context = format!("{} on {name}, step {step}", kind.name());
                assert_eq!(decided, expected, "{context}");
                assert_eq!(peeked.verdict, decided.verdict, "{context}");
                assert_eq!(peeked.retry_after_ms, decided.retry_after_ms, "{context}");
                let taken = if decided.is_allowed() { asked.cost.get() } else { 0 };
                assert_eq!(peeked.remaining - taken, decided.remaining, "{context}");
            }
        }
    }
}

#[test]
fn a_forecast_comes_true() {
    for kind in Kind::ALL {
        let (limit, clock) = (awkward(kind), ManualClock::at(NOW));
        for (name, limiter) in limiters(&clock) {
            let mut rng = Rng::new(2);
            for step in 0..150 {
                clock.advance(Duration::from_micros(rng.below(5_000)));
                block_on(limiter.check(charge(&limit, "k", rng.between(1, 7)))).unwrap();
                let asked_at = clock.now();
                let at = |instant: u64| {
                    clock.set(instant);
                    block_on(limiter.forecast(limit.charge("k"))).unwrap()
                };
                let now = at(asked_at);
                let context = format!("{} on {name}, step {step}: {now:?}", kind.name());
                let Some(next) = now.next_unit_at_ms else {
                    assert_eq!(now.spendable_now, now.limit, "{context}");
                    continue;
                };
                let before = (next * MS - MS).max(asked_at);
                assert_eq!(at(before).spendable_now, now.spendable_now, "too late, {context}");
                assert!(at(next * MS).spendable_now > now.spendable_now, "too early, {context}");
                let full_at = now.full_at_ms * MS;
                assert_eq!(at(full_at).spendable_now, now.limit, "not full, {context}");
                assert_eq!(at(full_at).next_unit_at_ms, None, "{context}");
                assert!(at(full_at - MS).spendable_now < now.limit, "full before, {context}");
                // What is spendable can be spent, and not one unit more.
                let peeked = |instant: u64, cost: u64| {
                    clock.set(instant);
                    block_on(limiter.peek(charge(&limit, "k", cost))).unwrap()
                };
                assert!(!peeked(asked_at, now.spendable_now + 1).is_allowed(), "{context}");
                if now.spendable_now > 0 {
                    assert!(peeked(asked_at, now.spendable_now).is_allowed(), "{context}");
                }
                clock.set(asked_at);
            }
        }
    }
}

#[test]
fn a_refund_by_its_receipt_undoes_the_charge() {
    for kind in Kind::ALL {
        let (limit, clock) = (limit_of(kind, 10, Duration::from_secs(60)), ManualClock::at(NOW));
        for (name, limiter) in limiters(&clock) {
            let context = format!("{} on {name}", kind.name());
            block_on(limiter.check(charge(&limit, "k", 3))).unwrap();
            let fourth = charge(&limit, "k", 4);
            let taken = block_on(limiter.check(fourth)).unwrap();
            assert_eq!(taken.remaining, 3, "{context}");
            let refunded =
                block_on(limiter.refund(fourth.refund(taken.receipt().unwrap()))).unwrap();
            assert_eq!(
                (refunded.each[0].given_back, refunded.standing.remaining),
                (4, 7),
                "{context}"
            );
            assert!(refunded.standing.is_allowed(), "{context}");
        }
    }
}

#[test]
fn a_refund_never_gives_more_than_is_owed() {
    for kind in Kind::ALL {
        let (limit, clock) = (limit_of(kind, 10, Duration::from_secs(60)), ManualClock::at(NOW));
        for (name, limiter) in limiters(&clock) {
            let context = format!("{} on {name}", kind.name());
            let fresh =
                block_on(limiter.refund(charge(&limit, "k", 5).refund(Receipt::Newest))).unwrap();
            assert_eq!(
                (fresh.each[0].given_back, fresh.standing.remaining),
                (0, 10),
                "{context}: fresh key"
            );
            block_on(limiter.check(charge(&limit, "k", 2))).unwrap();
            let all =
                block_on(limiter.refund(charge(&limit, "k", 9).refund(Receipt::Newest))).unwrap();
            assert_eq!((all.each[0].given_back, all.standing.remaining), (2, 10), "{context}");
            let admitted = (0..20)
                .filter(|_| block_on(limiter.check(limit.charge("k"))).unwrap().is_allowed())
                .count();
            assert_eq!(admitted, 10, "{context}: no more than a fresh key admits");
        }
    }
}

#[test]
fn a_refund_gives_nothing_back_twice_that_time_gave_back() {
    for kind in Kind::ALL {
        let (limit, clock) = (limit_of(kind, 10, Duration::from_secs(10)), ManualClock::at(NOW));
        for (name, limiter) in limiters(&clock) {
            clock.set(NOW);
            let context = format!("{} on {name}", kind.name());
            let asked = charge(&limit, "k", 10);
            let taken = block_on(limiter.check(asked)).unwrap();
            clock.set(taken.reset_at_ms * MS);
            block_on(limiter.check(charge(&limit, "k", 6))).unwrap();
            let refunded =
                block_on(limiter.refund(asked.refund(taken.receipt().unwrap()))).unwrap();
            assert_eq!(
                (refunded.each[0].given_back, refunded.standing.remaining),
                (0, 4),
                "{context}"
            );
        }
    }
}

/// Random charges and refunds: between two instants never more is admitted, net of refunds, than
/// one window of units plus what came back.
#[test]
fn refunds_never_mint() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let clock = ManualClock::at(NOW);
        let hour = Quota::per_hour(20);
        let limit = Limit::new("p", FixedWindow::new(hour, Anchor::FirstHit).unwrap()).unwrap();
        for (name, limiter) in limiters(&clock) {
            let (mut net, mut receipts) = (0_u64, Vec::<(u64, Decision)>::new());
            for _ in 0..100 {
                let cost = rng.between(1, 6);
                if rng.one_in(2) || receipts.is_empty() {
                    let decision = block_on(limiter.check(charge(&limit, "k", cost))).unwrap();
                    if decision.is_allowed() {
                        net += cost;
                        receipts.push((cost, decision));
                    }
                } else {
                    let (cost, decision) = receipts.swap_remove(0);
                    let asked = charge(&limit, "k", cost);
                    let refunded =
                        block_on(limiter.refund(asked.refund(decision.receipt().unwrap())))
                            .unwrap();
                    assert!(refunded.each[0].given_back <= cost, "{name}, seed {seed}");
                    net -= refunded.each[0].given_back;
                }
                assert!(net <= 20, "{name}, seed {seed}: {net} of 20 at once");
            }
        }
    }
}

#[test]
fn a_reset_key_is_a_fresh_one_and_others_are_untouched() {
    for kind in Kind::ALL {
        let (limit, clock) = (limit_of(kind, 10, Duration::from_secs(60)), ManualClock::at(NOW));
        for (name, limiter) in limiters(&clock) {
            let context = format!("{} on {name}", kind.name());
            for subject in ["k", "other"] {
                assert!(block_on(limiter.check(charge(&limit, subject, 10))).unwrap().is_allowed());
            }
            block_on(limiter.reset(limit.charge("k"))).unwrap();
            let decision = block_on(limiter.check(charge(&limit, "k", 10))).unwrap();
            assert!(decision.is_allowed(), "{context}");
            assert!(!block_on(limiter.check(limit.charge("other"))).unwrap().is_allowed());
            block_on(limiter.reset(limit.charge("never seen"))).unwrap();
        }
    }
}

#[test]
fn a_changed_quota_is_seen_by_looks_without_being_written() {
    let clock = ManualClock::at(NOW);
    for (name, limiter) in limiters(&clock) {
        let (old, new) = (per_hour("p", 10), per_hour("p", 4));
        block_on(limiter.check(charge(&old, "k", 3))).unwrap();
        for _ in 0..3 {
            assert_eq!(block_on(limiter.peek(new.charge("k"))).unwrap().remaining, 1, "{name}");
            assert_eq!(
                block_on(limiter.forecast(new.charge("k"))).unwrap().spendable_now,
                1,
                "{name}"
            );
        }
        assert_eq!(block_on(limiter.forecast(old.charge("k"))).unwrap().spendable_now, 7, "{name}");
        assert_eq!(block_on(limiter.check(new.charge("k"))).unwrap().remaining, 0, "{name}");
    }
}

#[test]
fn a_combination_is_no_receipt_but_its_parts_are() {
    let clock = ManualClock::at(1_700_000_000_000_000);
    let limiter = Limiter::with_clock(Memory::new(), clock.clone()).build();
    let quick = Limit::new("quick", Gcra::new(Quota::per_minute(10)).unwrap()).unwrap();
    let slow = Limit::new("slow", Gcra::new(Quota::per_hour(10)).unwrap()).unwrap();
    let charges = [charge(&quick, "k", 5), charge(&slow, "k", 5)];
    let admission = Admission::of(&charges);
    let combined = limiter.sync().check(admission).unwrap();
    assert!(combined.is_allowed());
    assert_eq!(combined.receipt(), None, "it is of two charges");
    // A minute later the quick limit has given everything back, and another caller took 5 of it.
    clock.advance(Duration::from_secs(60));
    assert!(limiter.sync().check(charge(&quick, "k", 5)).unwrap().is_allowed());
    let [of_quick, of_slow] = [0, 1].map(|part| combined.parts()[part].receipt().unwrap());
    assert_eq!(
        limiter.sync().refund(charges[0].refund(of_quick)).unwrap().each[0].given_back,
        0,
        "minted"
    );
    assert_eq!(
        limiter.sync().refund(charges[1].refund(of_slow)).unwrap().each[0].given_back,
        5,
        "a sixth of one came back by itself, the rest of it now"
    );
}

#[test]
fn what_charged_nothing_has_no_receipt() {
    let limiter = Limiter::with_clock(Memory::new(), ManualClock::at(NOW)).build();
    let wide = Limit::new("wide", Gcra::new(Quota::per_minute(5)).unwrap()).unwrap();
    let narrow = Limit::new("narrow", Gcra::new(Quota::per_minute(1)).unwrap()).unwrap();
    let charges = [wide.charge("k"), narrow.charge("k")];
    let admission = Admission::of(&charges);
    let first = limiter.sync().check(admission).unwrap();
    assert!(first.parts().iter().all(|part| part.receipt().is_some()));
    let denied = limiter.sync().check(admission).unwrap();
    assert_eq!(denied.verdict, Verdict::Denied);
    assert_eq!(denied.parts()[0].verdict, Verdict::Allowed, "alone it would pass");
    assert!(denied.parts().iter().all(|part| part.receipt().is_none()), "{denied:?}");
    assert_eq!(limiter.sync().peek(wide.charge("k")).unwrap().receipt(), None, "only a peek");
    let standing =
        limiter.sync().refund(wide.charge("k").refund(Receipt::Newest)).unwrap().standing;
    assert_eq!(standing.receipt(), None, "a refund charges nothing");
}
