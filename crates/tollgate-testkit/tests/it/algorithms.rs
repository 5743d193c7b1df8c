//! Every built-in algorithm against the reference model and its promises.

use std::thread;

use tollgate_core::algorithm::{Description, built_in};
use tollgate_core::{Cost, Now};
use tollgate_testkit::check::{
    agrees_with_model, long_run_rate_is_exact, never_over_admits, plans_agree_with_model,
    promises_are_kept, refund_at_once_is_complete, refund_is_what_is_left, refund_never_mints,
};
use tollgate_testkit::model::Kind;
use tollgate_testkit::rng::Rng;
use tollgate_testkit::trace::random_quota;

const SEED: u64 = 0x70_11_6A_7E;
const STEPS: u64 = 1_000_000;

fn agrees(kind: Kind) {
    let tally = agrees_with_model(kind, SEED, STEPS);
    println!("{}: seed {SEED:#x}: {tally:?}", kind.name());
    // A trace that misses a case proves nothing about it.
    let least = tally.allowed.min(tally.denied).min(tally.returned);
    assert!(least > STEPS / 200, "the trace is too one-sided: {tally:?}");
    let least = tally.given_back.min(tally.indebted).min(tally.dropped);
    assert!(least > STEPS / 500, "hardly anything is settled: {tally:?}");
    assert!(tally.carried > STEPS / 500, "hardly any quota was new: {tally:?}");
    assert!(tally.never > 0 && tally.tight > 0);
}

#[test]
fn every_algorithm_agrees_with_the_model() {
    thread::scope(|scope| {
        for kind in Kind::ALL {
            scope.spawn(move || agrees(kind));
        }
    });
}

#[test]
fn no_combination_of_clocks_admits_more_than_one_clock() {
    for kind in Kind::ALL {
        println!("{}: seed {SEED:#x}", kind.name());
        never_over_admits(kind, SEED, 500);
    }
}

#[test]
fn three_per_second_never_drifts() {
    assert!(long_run_rate_is_exact(3, 1_000_000, 10_000_000) > 1_000_000);
}

#[test]
fn seven_per_second_and_a_half_never_drifts() {
    assert!(long_run_rate_is_exact(7, 1_500_000, 10_000_000) > 1_000_000);
}

#[test]
fn a_prime_per_day_never_drifts() {
    assert!(long_run_rate_is_exact(999_983, 86_400_000_000, 10_000_000) > 1_000_000);
}

#[test]
fn refunds_never_mint() {
    for kind in Kind::ALL {
        let refunded = refund_never_mints(kind, SEED, 50_000);
        println!("{}: seed {SEED:#x}: {refunded} units given back", kind.name());
        assert!(refunded > 0, "nothing was ever given back");
    }
}

#[test]
fn refunds_at_once_are_complete() {
    for kind in Kind::ALL {
        refund_at_once_is_complete(kind, SEED, 5_000);
    }
}

#[test]
fn refunds_of_schedules_give_back_what_is_left_of_the_charge() {
    for kind in [Kind::Gcra, Kind::TokenBucket, Kind::LeakyBucket] {
        let parts = refund_is_what_is_left(kind, SEED, 50_000);
        println!("{}: seed {SEED:#x}: {parts} parts of a unit given back", kind.name());
        assert!(parts > 1_000, "hardly any unit had decayed in part");
    }
}

#[test]
fn waits_and_resets_are_tight() {
    for kind in Kind::ALL {
        let waited = promises_are_kept(kind, SEED, 50_000);
        println!("{}: seed {SEED:#x}: {waited} denials waited for", kind.name());
        assert!(waited > 1_000, "hardly anything was denied");
    }
}

#[test]
fn plans_of_several_charges_agree_with_the_model() {
    let (admitted, denied) = plans_agree_with_model(SEED, 200_000);
    println!("seed {SEED:#x}: {admitted} admitted, {denied} not");
    assert!(admitted > 10_000 && denied > 10_000);
}

/// Names, numbers and states that no decision shows, for 2,000 random quotas of each algorithm.
#[test]
fn what_an_algorithm_says_about_itself_is_true() {
    for kind in Kind::ALL {
        let mut rng = Rng::new(SEED);
        for _ in 0..2_000 {
            let quota = random_quota(kind, &mut rng);
            let (rule, context) = (quota.rule().unwrap(), format!("seed {SEED:#x}, {quota:?}"));
            assert_eq!((rule.name(), rule.quota_id().tag()), (kind.name(), kind.tag()));
            let rebuilt = built_in(rule.quota_id()).map(|rule| rule.quota_id());
            assert_eq!(rebuilt, Some(rule.quota_id()), "{context}");
            let ceiling = quota.ceiling();
            let Description { ceiling: stated, units, period, .. } = rule.describe();
            assert_eq!((rule.ceiling(), stated), (ceiling, ceiling), "{context}");
            // The ceiling takes a window, rounded up.
            let exact = u128::from(ceiling) * u128::from(period);
            let window = exact.div_ceil(u128::from(units));
            assert_eq!(u128::from(rule.window()), window, "{context}");

            let (now, most) = (Now::at(1_700_000_000_000_000), ceiling.min(Cost::MAX.get()));
            let half = Cost::new(most.div_ceil(2)).unwrap();
            let Some(write) = rule.step(&[], now, half).write else { panic!("{context}") };
            assert!(write.fresh_at <= now.reading() + rule.horizon(), "{context}");
            let words = write.words.to_vec();
            assert!(rule.accepts(&words), "{context}");
            assert!(!rule.accepts(&[&words[..], &[1]].concat()), "one word more: {context}");
            assert!(!rule.accepts(&[&[u64::MAX], &words[1..]].concat()), "no instant: {context}");
            let evidence = rule.evidence(&words, now);
            let [kept, whole] =
                [&evidence[..], &words].map(|words| rule.peek(words, now, Cost::ONE));
            assert!(!whole.is_allowed() || kept == whole, "evidence: {context}");
        }
    }
}
