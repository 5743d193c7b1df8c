//! Several limits at once: the combination algebra, all or nothing, and the promise of the wait.

use std::time::Duration;

use tollgate::algorithm::Gcra;
use tollgate::store::BoxStore;
use tollgate::{
    Admission, Charge, Decision, Limit, Limiter, ManualClock, Name, Quota, Rule, Verdict,
};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::model::Kind;
use tollgate_testkit::rng::Rng;
use tollgate_testkit::runtime::block_on;

use crate::support::{MS, NOW, SECOND, charge, per_hour, rule, stores, units};

/// Any algorithm with a few units per a few milliseconds.
fn small_rule(kinds: &[Kind], rng: &mut Rng) -> Rule {
    let kind = rng.pick(kinds, Kind::Gcra);
    // Even, for two buckets.
    let period = Duration::from_micros(2 * rng.between(500, 100_000));
    rule(kind, rng.between(1, 6), period)
}

/// Three limits with distinct names.
fn three_limits(kinds: &[Kind], rng: &mut Rng) -> Vec<Limit> {
    ["ip", "user", "route"]
        .into_iter()
        .map(|policy| Limit::with_rule(policy, small_rule(kinds, rng)).unwrap())
        .collect()
}

/// The pure definition: the numbers of the limit that binds, and the longest delay.
fn combined(charges: &[Charge<'_>], alone: &[Decision]) -> Decision {
    let is = |verdict| alone.iter().any(|decision| decision.verdict == verdict);
    let verdict = [Verdict::Never, Verdict::Denied, Verdict::Allowed].into_iter().find(|v| is(*v));
    let mut binding: Option<usize> = None;
    for (index, one) in alone.iter().enumerate() {
        let binds = |other: &Decision| {
            let (wait, others_wait) = (one.retry_after_ms, other.retry_after_ms);
            wait > others_wait
                || wait == others_wait && one.remaining < other.remaining
                || wait == others_wait
                    && one.remaining == other.remaining
                    && one.reset_at_ms > other.reset_at_ms
        };
        if Some(one.verdict) == verdict && binding.is_none_or(|other| binds(&alone[other])) {
            binding = Some(index);
        }
    }
    let index = binding.unwrap();
    let (mut whole, delay) = (alone[index].clone(), alone.iter().map(|one| one.delay_ms).max());
    whole.delay_ms = if whole.is_allowed() { delay.unwrap() } else { 0 };
    whole.with_binding(charges[index].limit.policy().clone())
}

/// What a decision says, apart from its parts.
fn said(one: &Decision) -> (Verdict, [u64; 4], Option<u64>, Option<&Name>) {
    let numbers = [one.limit, one.remaining, one.reset_at_ms, one.delay_ms];
    (one.verdict, numbers, one.retry_after_ms, one.binding())
}

#[test]
fn a_combination_is_the_algebra_of_its_parts() {
    for seed in 0..120_u64 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let limits = three_limits(&Kind::ALL, &mut rng);
        let clock = ManualClock::at(NOW);
        let candidates: Vec<(&str, Limiter<BoxStore>)> = stores()
            .into_iter()
            .map(|(name, store)| (name, Limiter::with_clock(store, clock.clone()).build()))
            .collect();
        // The same limits, asked one by one.
        let alone = Limiter::with_clock(ReferenceStore::new(), clock.clone()).build();
        for step in 0..40 {
            clock
                .set(NOW.max(tollgate::Clock::now(&clock) + rng.below(30_000)) - rng.below(2) * MS);
            let charges: Vec<Charge<'_>> =
                limits.iter().map(|limit| charge(limit, "k", rng.between(1, 3))).collect();
            let peeks: Vec<Decision> =
                charges.iter().map(|one| block_on(alone.peek(*one)).unwrap()).collect();
            let admitted = peeks.iter().all(Decision::is_allowed);
            let parts: Vec<Decision> = if admitted {
                charges.iter().map(|one| block_on(alone.check(*one)).unwrap()).collect()
            } else {
                peeks
            };
            let expected = combined(&charges, &parts);
            for (name, limiter) in &candidates {
                let decision = block_on(limiter.check(&charges)).unwrap();
                let context = format!("{name}, seed {seed}, step {step}: {charges:?}");
                assert_eq!(said(&decision), said(&expected), "{context}");
                assert_eq!(decision.parts(), parts, "{context}");
            }
        }
    }
}

#[test]
fn a_denied_combination_charges_nothing() {
    for (name, store) in stores() {
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        let (wide, narrow) = (per_hour("wide", 10), per_hour("narrow", 1));
        for charges in
            [[wide.charge("k"), narrow.charge("k")], [narrow.charge("other"), wide.charge("k")]]
        {
            let admission = Admission::of(&charges);
            assert!(block_on(limiter.check(&admission)).unwrap().is_allowed());
            for _ in 0..5 {
                let denied = block_on(limiter.check(&admission)).unwrap();
                assert_eq!(denied.verdict, Verdict::Denied, "{name}");
                assert_eq!(denied.remaining, 0, "{name}: the least that is left");
                assert_eq!(denied.binding().unwrap().as_str(), "narrow", "{name}");
            }
        }
        let spendable = block_on(limiter.forecast(wide.charge("k"))).unwrap().spendable_now;
        assert_eq!(spendable, 8, "{name}: only the two that were admitted");
    }
}

#[test]
fn a_denied_combination_reports_every_limit_uncharged() {
    for (name, store) in stores() {
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        let (roomy, tight) = (per_hour("roomy", 3), per_hour("tight", 5));
        block_on(limiter.check(charge(&tight, "k", 4))).unwrap();
        let charges = [charge(&roomy, "k", 3), charge(&tight, "k", 2)];
        let denied = block_on(limiter.check(&charges)).unwrap();
        assert_eq!(denied.verdict, Verdict::Denied, "{name}");
        assert_eq!((denied.limit, denied.remaining), (5, 1), "{name}: the numbers of tight");
        let remaining = denied.parts().iter().map(|part| part.remaining).collect::<Vec<_>>();
        assert_eq!(remaining, [3, 1], "{name}: roomy still has 3");
    }
}

#[test]
fn any_never_is_never() {
    for (name, store) in stores() {
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        let (empty, small, wide) =
            (per_hour("empty", 1), per_hour("small", 2), per_hour("wide", 9));
        block_on(limiter.check(empty.charge("k"))).unwrap();
        let charges = [empty.charge("k"), charge(&small, "k", 3), wide.charge("k")];
        let never = block_on(limiter.check(&charges)).unwrap();
        assert_eq!((never.verdict, never.retry_after_ms), (Verdict::Never, None), "{name}");
        assert_eq!(never.binding().unwrap().as_str(), "small", "{name}");
        assert_eq!(
            block_on(limiter.forecast(wide.charge("k"))).unwrap().spendable_now,
            9,
            "{name}"
        );
    }
}

#[test]
fn the_binding_limit_is_the_one_with_the_longest_wait_or_the_least_left() {
    for (name, store) in stores() {
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        let slow = Limit::with_rule("slow", rule(Kind::Gcra, 2, Duration::from_secs(60))).unwrap();
        let fast = Limit::with_rule("fast", rule(Kind::Gcra, 1, Duration::from_secs(1))).unwrap();
        let charges = [slow.charge("k"), fast.charge("k")];
        let admission = Admission::of(&charges);
        let allowed = block_on(limiter.check(&admission)).unwrap();
        assert_eq!(allowed.binding().unwrap().as_str(), "fast", "{name}: the least is left there");
        let denied = block_on(limiter.check(&admission)).unwrap();
        assert_eq!(denied.binding().unwrap().as_str(), "fast", "{name}: only it denied");
        block_on(limiter.check(slow.charge("k"))).unwrap();
        let denied = block_on(limiter.check(&admission)).unwrap();
        assert_eq!(denied.retry_after_ms, Some(30_000), "{name}");
        assert_eq!(denied.binding().unwrap().as_str(), "slow", "{name}: the longest wait");
    }
}

#[test]
fn two_charges_on_one_key_are_applied_in_order() {
    for (name, store) in stores() {
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        let limit = per_hour("p", 5);
        let check = |costs: [u64; 2], subject: &str| {
            let charges = costs.map(|cost| charge(&limit, subject, cost));
            block_on(limiter.check(&charges)).unwrap()
        };
        assert_eq!(check([3, 2], "a").remaining, 0, "{name}");
        assert_eq!(check([2, 2], "b").remaining, 1, "{name}");
        let denied = check([1, 1], "b");
        assert_eq!((denied.verdict, denied.remaining), (Verdict::Denied, 1), "{name}");
        let never = check([3, 3], "c");
        assert_eq!((never.verdict, never.remaining), (Verdict::Never, 5), "{name}: 6 of 5");
        assert_eq!(check([4, 1], "c").remaining, 0, "{name}: the refused ones took nothing");
    }
}

/// Denied combinations are admitted after their wait, and not one whole millisecond earlier.
fn keeps_its_promise(
    (seed, kinds): (u64, &[Kind]),
    charges_of: impl Fn(&mut Rng, &[Limit]) -> Vec<(usize, u64)>,
) {
    let mut rng = Rng::new(seed);
    let limits = three_limits(kinds, &mut rng);
    let clock = ManualClock::at(NOW + rng.below(SECOND));
    let limiter = Limiter::with_clock(ReferenceStore::new(), clock.clone()).build();
    let mut promises = 0;
    for step in 0..60 {
        clock.advance(Duration::from_micros(rng.below(10_000)));
        let asked = charges_of(&mut rng, &limits);
        let charges: Vec<Charge<'_>> =
            asked.iter().map(|(limit, cost)| charge(&limits[*limit], "k", *cost)).collect();
        let admission = Admission::of(&charges);
        let decision = block_on(limiter.check(&admission)).unwrap();
        let (Verdict::Denied, Some(wait)) = (decision.verdict, decision.retry_after_ms) else {
            continue;
        };
        promises += 1;
        let context = format!("seed {seed}, step {step}, wait {wait} ms: {charges:?}");
        let asked_at = tollgate::Clock::now(&clock);
        clock.set(asked_at + (wait - 1) * MS);
        let early = block_on(limiter.check(&admission)).unwrap();
        assert!(!early.is_allowed(), "a millisecond too early, {context}");
        clock.set(asked_at + wait * MS);
        let then = block_on(limiter.check(&admission)).unwrap();
        assert!(then.is_allowed(), "broke its promise, {context}: {then:?}");
    }
    assert!(promises > 5, "seed {seed} made only {promises} promises");
}

#[test]
fn a_denied_combination_is_admitted_after_its_wait_and_not_earlier() {
    for seed in 0..200 {
        println!("seed {seed}");
        keeps_its_promise((seed, &Kind::ALL), |rng, limits| {
            let cost = |limit: &Limit, rng: &mut Rng| rng.between(1, limit.rule().ceiling());
            limits.iter().enumerate().map(|(index, limit)| (index, cost(limit, rng))).collect()
        });
    }
}

/// One or two charges on each limit, which could be granted together.
fn pairs(rng: &mut Rng, limits: &[Limit]) -> Vec<(usize, u64)> {
    let mut charges = Vec::new();
    for (index, limit) in limits.iter().enumerate() {
        let ceiling = limit.rule().ceiling();
        let first = rng.between(1, ceiling);
        charges.push((index, first));
        if first < ceiling {
            charges.push((index, rng.between(1, ceiling - first)));
        }
    }
    charges
}

#[test]
fn two_charges_on_one_key_are_admitted_after_their_wait_and_not_earlier() {
    for kind in Kind::ALL {
        for seed in 0..100 {
            println!("{} with seed {seed}", kind.name());
            keeps_its_promise((seed, &[kind]), pairs);
        }
    }
}

#[test]
fn two_charges_on_one_key_cost_what_one_charge_of_both_costs() {
    for seed in 0..100 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let limit = Limit::with_rule("p", small_rule(&Kind::ALL, &mut rng)).unwrap();
        let clock = ManualClock::at(NOW);
        let apart = Limiter::with_clock(ReferenceStore::new(), clock.clone()).build();
        let joined = Limiter::with_clock(ReferenceStore::new(), clock.clone()).build();
        for _ in 0..60 {
            clock.advance(Duration::from_micros(rng.below(20_000)));
            let (first, second) = (rng.between(1, 4), rng.between(1, 4));
            let charges = [charge(&limit, "k", first), charge(&limit, "k", second)];
            let two = block_on(apart.check(&charges)).unwrap();
            let sum = limit.charge("k").cost(units(first + second));
            let one = block_on(joined.check(sum)).unwrap();
            assert_eq!(two.verdict, one.verdict, "seed {seed}: {charges:?}");
            assert_eq!(two.remaining, one.remaining, "seed {seed}: {charges:?}");
        }
    }
}

#[test]
fn charges_of_two_quotas_on_one_key_are_all_or_nothing() {
    let limit = |per_hour, burst| {
        let quota = Quota::new(per_hour, Duration::from_secs(3_600));
        Limit::new("p", Gcra::with_burst(quota, burst).unwrap()).unwrap()
    };
    let limiter = Limiter::with_clock(ReferenceStore::new(), ManualClock::at(NOW)).build();
    let (small, large) = (limit(4, 4), limit(40, 40));
    // Five units of the small quota, but with a charge of the large one between them.
    let asked = [(&small, 2), (&large, 1), (&small, 1), (&small, 1), (&small, 1)];
    let charges: Vec<Charge<'_>> = asked.iter().map(|(of, cost)| charge(of, "k", *cost)).collect();
    let combined = block_on(limiter.check(&charges)).unwrap();
    assert!(!combined.is_allowed(), "{combined:?}");
    let left = block_on(limiter.forecast(small.charge("k"))).unwrap().spendable_now;
    assert_eq!(left, 4, "a denied admission has charged");
}
