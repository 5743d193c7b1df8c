//! No input makes it panic: any clock reading, any subject, any quota, any cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate::algorithm::{
    Anchor, FixedWindow, Gcra, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket,
};
use tollgate::authoring::MICROS_MAX;
use tollgate::limiter::{BreakerConfig, Observer};
use tollgate::store::BoxStore;
use tollgate::{
    Admission, Clock, Code, Cost, Limit, Limiter, ManualClock, Micros, OutageMode, Quota, Receipt,
    RequestId, Result, Rule,
};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::fault::{Fault, Faulty};
use tollgate_testkit::model::{Kind, ModelQuota};
use tollgate_testkit::rng::Rng;
use tollgate_testkit::runtime::block_on;

use crate::support::{NOW, compare_and_swap, memory, stores};

/// A clock that reads anything, even beyond the range of time.
#[derive(Clone, Debug, Default)]
struct WildClock(Arc<AtomicU64>);

impl Clock for WildClock {
    fn now(&self) -> Micros {
        self.0.load(Relaxed)
    }
}

const READINGS: [Micros; 9] =
    [0, 1, 999, NOW, MICROS_MAX - 1, MICROS_MAX, MICROS_MAX + 1, u64::MAX - 1, u64::MAX];

const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    3,
    59,
    60,
    61,
    1_000,
    1_001,
    u32::MAX as u64,
    1 << 46,
    (1 << 48) - 1,
    1 << 48,
    (1 << 48) + 1,
    1 << 52,
    u64::MAX,
];

fn number(rng: &mut Rng) -> u64 {
    match rng.below(3) {
        0 => rng.pick(&NUMBERS, 0),
        1 => rng.of_any_size(u64::MAX),
        _ => rng.next_u64(),
    }
}

fn period(rng: &mut Rng) -> Duration {
    match rng.below(4) {
        0 => Duration::from_nanos(rng.of_any_size(u64::MAX)),
        1 => Duration::from_micros(number(rng)),
        2 => Duration::from_micros(rng.of_any_size(1 << 52)),
        _ => Duration::new(number(rng), 0),
    }
}

fn any_rule(rng: &mut Rng) -> Result<Rule> {
    let quota = Quota::new(number(rng), period(rng));
    let other = number(rng);
    Ok(match rng.below(8) {
        0 => Rule::new(Gcra::new(quota)?),
        1 => Rule::new(Gcra::with_burst(quota, other)?),
        2 => Rule::new(TokenBucket::new(other, quota)?),
        3 => Rule::new(LeakyBucket::new(quota, other)?),
        4 => {
            let anchor = rng.pick(&[Anchor::Epoch, Anchor::FirstHit], Anchor::Epoch);
            Rule::new(FixedWindow::new(quota, anchor)?)
        }
        5 => Rule::new(SlidingWindow::with_buckets(quota, rng.between(1, 60))?),
        6 => Rule::new(SlidingLog::new(quota)?),
        _ => {
            let kind = rng.pick(&Kind::ALL, Kind::Gcra);
            ModelQuota::new(kind, number(rng), number(rng), other).rule()?
        }
    })
}

fn any_cost(rng: &mut Rng, rule: &Rule) -> Cost {
    let units = match rng.below(4) {
        0 => 1,
        1 => rule.ceiling(),
        2 => u64::from(u32::MAX),
        _ => rng.of_any_size(u64::from(u32::MAX)),
    };
    Cost::new(units.clamp(1, Cost::MAX.get())).unwrap()
}

fn any_receipt(rng: &mut Rng) -> Receipt {
    match rng.below(3) {
        0 => Receipt::Newest,
        1 => Receipt::Until(rng.of_any_size(MICROS_MAX)),
        _ => Receipt::Until(rng.pick(&READINGS[..7], 0)),
    }
}

#[test]
fn no_quota_is_a_panic_and_every_refusal_names_its_field() {
    let mut rng = Rng::new(11);
    let (mut accepted, mut refused) = (0_u32, 0_u32);
    for _ in 0..200_000 {
        match any_rule(&mut rng) {
            Ok(rule) => {
                accepted += 1;
                assert!(rule.ceiling() >= 1 && rule.horizon() >= 1);
            }
            Err(error) => {
                refused += 1;
                assert_eq!(error.code(), Code::ConfigInvalid);
                assert!(error.field().is_some());
            }
        }
    }
    assert!(accepted > 5_000 && refused > 5_000, "{accepted} accepted, {refused} refused");
}

#[test]
fn no_clock_and_no_cost_is_a_panic_on_any_store() {
    for seed in 0..40_u64 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let clock = WildClock::default();
        let limiters: Vec<(&str, Limiter<BoxStore>)> = stores()
            .into_iter()
            .map(|(name, store)| (name, Limiter::with_clock(store, clock.clone()).build()))
            .collect();
        let mut limit = None;
        for step in 0..300 {
            if limit.is_none() || rng.one_in(20) {
                let Ok(rule) = any_rule(&mut rng) else { continue };
                limit = Some(Limit::with_rule("p", rule).unwrap());
            }
            let Some(limit) = &limit else { continue };
            let reading = match rng.below(3) {
                0 => rng.pick(&READINGS, 0),
                1 => rng.of_any_size(u64::MAX),
                _ => clock.now().saturating_add(rng.of_any_size(1 << 40)),
            };
            clock.0.store(reading, Relaxed);
            let asked = limit.charge("k").cost(any_cost(&mut rng, limit.rule()));
            let act = rng.below(8);
            let (receipt, id) = (any_receipt(&mut rng), format!("{}", rng.below(4)));
            for (name, limiter) in &limiters {
                let context =
                    || format!("{name}, seed {seed}, step {step}, at {reading}: {asked:?}");
                let charges = [asked, limit.charge("l"), asked];
                let failed = match act {
                    0 => block_on(limiter.peek(asked)).err(),
                    1 => block_on(limiter.forecast(limit.charge("k"))).err(),
                    2 => block_on(limiter.refund(asked.refund(receipt))).err(),
                    3 => block_on(limiter.check(&charges)).err(),
                    4 => {
                        let keep = Duration::from_micros(u64::MAX >> (reading % 64));
                        let once = RequestId::new(&id).unwrap().keep_for(keep);
                        let admission = Admission::of(&charges[..1]).request_id(once);
                        block_on(limiter.check(&admission)).err()
                    }
                    _ => {
                        let decided = block_on(limiter.check(asked));
                        if let Ok(decision) = &decided {
                            assert!(decision.remaining <= decision.limit, "{}", context());
                        }
                        decided.err()
                    }
                };
                if let Some(error) = failed {
                    let accepted = [Code::Unsupported, Code::IdempotencyConflict, Code::QueueFull];
                    // At the end of numbers no deadline can be waited for.
                    let no_time = error.code() == Code::Timeout && reading > u64::MAX - 100_000;
                    assert!(no_time || accepted.contains(&error.code()), "{error}, {}", context());
                }
            }
        }
    }
}

#[derive(Debug)]
struct Silently;

impl Observer for Silently {}

#[test]
fn no_clock_is_a_panic_in_an_outage() {
    let breaker = BreakerConfig::default().failures(2).open_for(Duration::MAX);
    for seed in 0..60_u64 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let clock = WildClock::default();
        let store = Faulty::scripted(ReferenceStore::new(), ManualClock::at(NOW), []);
        let limiter = Limiter::with_clock(store, clock.clone())
            .deadline(Duration::MAX)
            .breaker(if seed % 2 == 0 { breaker } else { BreakerConfig::default() })
            .observer(Silently)
            .build();
        for _ in 0..200 {
            clock.0.store(rng.pick(&READINGS, 0), Relaxed);
            let Ok(rule) = any_rule(&mut rng) else { continue };
            let mode = rng
                .pick(&[OutageMode::Open, OutageMode::Closed, OutageMode::Local], OutageMode::Open);
            let limit = Limit::with_rule("p", rule).unwrap().on_outage(mode);
            limiter.store().then(rng.pick(&[[Fault::After], [Fault::None]], [Fault::None]));
            let cost = any_cost(&mut rng, limit.rule());
            block_on(limiter.check(limit.charge("k").cost(cost))).unwrap();
        }
    }
}

#[test]
fn any_text_is_a_subject() {
    let long = |text: &str, bytes: usize| text.repeat(bytes.div_ceil(text.len()));
    let subjects: Vec<String> = vec![
        String::new(),
        "\0".into(),
        "\0\0".into(),
        " ".into(),
        "%".into(),
        "{}".into(),
        "{".into(),
        "}:".into(),
        ":".into(),
        "%25".into(),
        "a:b".into(),
        "a".into(),
        "ä".into(),
        "a\u{308}".into(),
        "日本語".into(),
        "🦀\u{200d}🦀".into(),
        "\u{feff}".into(),
        "\r\n".into(),
        long("x", 1_024),
        long("x", 1_025),
        long("\0", 100_000),
        long("é", 100_000),
        long("🦀", 100_000),
    ];
    for (name, store) in stores() {
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        let limit = crate::support::per_hour("p", 5);
        // Each is a key of its own: none sees what another spent.
        for round in 1..=5 {
            for subject in &subjects {
                let decision = block_on(limiter.check(limit.charge(subject))).unwrap();
                assert_eq!(decision.remaining, 5 - round, "{name}: {:.40?}", subject);
            }
        }
        for subject in &subjects {
            assert!(!block_on(limiter.check(limit.charge(subject))).unwrap().is_allowed());
        }
    }
}

#[test]
fn a_batch_of_many_keys_and_one_of_a_hot_key_are_decided() {
    for (name, store) in [
        ("memory", BoxStore::new(memory())),
        ("reference", BoxStore::new(ReferenceStore::new())),
        ("compare_and_swap", BoxStore::new(compare_and_swap())),
    ] {
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        let limit = crate::support::per_hour("p", 700);
        let hot = vec![limit.charge("k"); 1_000];
        let decided = block_on(limiter.check_batch(&hot));
        let allowed = decided.iter().filter(|one| one.as_ref().unwrap().is_allowed()).count();
        assert_eq!((decided.len(), allowed), (1_000, 700), "{name}");
        let subjects: Vec<String> = (0..1_000).map(|n| format!("s{n}")).collect();
        let many: Vec<_> = subjects.iter().map(|subject| limit.charge(subject)).collect();
        assert!(block_on(limiter.check_batch(&many)).iter().all(|one| one.is_ok()), "{name}");
    }
}

#[test]
fn any_instant_is_a_receipt() {
    for kind in Kind::ALL {
        for (name, store) in stores() {
            let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
            let limit = crate::support::limit_of(kind, 10, Duration::from_secs(60));
            block_on(limiter.check(limit.charge("k"))).unwrap();
            for until in [u64::MAX, u64::MAX - 1, u64::MAX / 1_000 * 1_000 + 1] {
                let refund = limiter.refund(limit.charge("k").refund(Receipt::Until(until)));
                assert!(
                    block_on(refund).unwrap().each[0].given_back <= 1,
                    "{} on {name}",
                    kind.name()
                );
            }
        }
    }
}

#[test]
fn two_quotas_on_one_key_in_one_admission_are_decided() {
    for seed in 0..3_000_u64 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let limiter = Limiter::with_clock(ReferenceStore::new(), ManualClock::at(NOW)).build();
        let kinds = Kind::ALL;
        let any = |rng: &mut Rng| {
            let kind = rng.pick(&kinds, kinds[0]);
            let period = Duration::from_micros(2 * rng.between(1, 1_000_000));
            crate::support::rule(kind, rng.between(1, 9), period)
        };
        for step in 0..6 {
            let limits = [(); 2].map(|()| Limit::with_rule("p", any(&mut rng)).unwrap());
            let costs = [rng.between(1, 5), rng.between(1, 5)];
            let charges = [0, 1].map(|of| crate::support::charge(&limits[of], "k", costs[of]));
            let decision = block_on(limiter.check(&charges)).unwrap();
            assert!(
                decision.remaining <= decision.limit,
                "seed {seed}, step {step}: {charges:?}: {decision:?}"
            );
            let is_of_one = limits.iter().any(|limit| limit.rule().ceiling() == decision.limit);
            assert!(is_of_one, "seed {seed}, step {step}: {charges:?}: {decision:?}");
        }
    }
}
