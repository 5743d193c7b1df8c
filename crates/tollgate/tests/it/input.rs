//! Bad input is refused with the field, what is accepted, and a nearest value that is accepted.

use std::time::Duration;

use tollgate::algorithm::{
    Anchor, FixedWindow, Gcra, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket,
};
use tollgate::store::{BoxStore, Memory};
use tollgate::{
    Admission, Code, Cost, Error, Limit, Limiter, ManualClock, Quota, RequestId, Result,
};
use tollgate_testkit::runtime::block_on;

use crate::support::{NOW, charge, per_hour, stores};

/// One number of a quota, to be replaced by what an error suggests.
#[derive(Clone, Copy, Debug)]
enum Value {
    Units(u64),
    Period(Duration),
}

/// Builds a quota with this value in the place of the bad one.
type Build = fn(Value) -> Result<()>;

fn units(value: Value) -> u64 {
    match value {
        Value::Units(units) => units,
        Value::Period(period) => panic!("{period:?} where units belong"),
    }
}

fn period(value: Value) -> Duration {
    match value {
        Value::Period(period) => period,
        Value::Units(units) => panic!("{units} units where a period belongs"),
    }
}

/// What the message suggests instead.
fn suggestion(error: &Error, like: Value) -> Value {
    let (_, nearest) = error.message().rsplit_once("nearest").unwrap();
    let text = nearest.rsplit_once(": ").unwrap().1;
    match like {
        Value::Units(_) => Value::Units(text.parse().unwrap()),
        Value::Period(_) => Value::Period(duration(text)),
    }
}

/// Reads what `Duration` prints.
fn duration(text: &str) -> Duration {
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
    let nanos_per: u128 = match &text[digits.len()..] {
        "ns" => 1,
        "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        unit => panic!("{unit} is no unit, in {text}"),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = 10_u128.pow(u32::try_from(fraction.len()).unwrap());
    let parsed = |digits: &str| if digits.is_empty() { 0 } else { digits.parse::<u128>().unwrap() };
    let nanos = parsed(whole) * nanos_per + parsed(fraction) * nanos_per / scale;
    Duration::from_micros(u64::try_from(nanos / 1_000).unwrap())
        + Duration::from_nanos(u64::try_from(nanos % 1_000).unwrap())
}

const SECOND: Duration = Duration::from_secs(1);

/// The field at fault, the value, and the quota around it.
type Bad = (&'static str, Value, Build);

fn micros(micros: u64) -> Value {
    Value::Period(Duration::from_micros(micros))
}

fn nanos(nanos: u64) -> Value {
    Value::Period(Duration::from_nanos(nanos))
}

fn bad_units() -> Vec<Bad> {
    const FAST: Quota = Quota::per_second(1 << 48);
    let builds: [(&'static str, Build); 9] = [
        ("limit", |v| Gcra::with_burst(Quota::per_second(units(v)), 1).map(drop)),
        ("burst", |v| Gcra::with_burst(FAST, units(v)).map(drop)),
        ("refill", |v| TokenBucket::new(1, Quota::per_second(units(v))).map(drop)),
        ("capacity", |v| TokenBucket::new(units(v), FAST).map(drop)),
        ("rate", |v| LeakyBucket::new(Quota::per_second(units(v)), 1).map(drop)),
        ("limit", |v| FixedWindow::new(Quota::per_second(units(v)), Anchor::Epoch).map(drop)),
        ("limit", |v| SlidingWindow::new(Quota::per_second(units(v))).map(drop)),
        ("buckets", |v| SlidingWindow::with_buckets(Quota::per_minute(1), units(v)).map(drop)),
        ("limit", |v| SlidingLog::new(Quota::per_second(units(v))).map(drop)),
    ];
    let mut bad: Vec<Bad> = Vec::new();
    for (field, build) in builds {
        bad.extend([0, (1 << 48) + 1, u64::MAX].map(|many| (field, Value::Units(many), build)));
    }
    bad.push(("burst", Value::Units(1 << 40), |v| {
        Gcra::with_burst(Quota::per_day(7), units(v)).map(drop)
    }));
    bad
}

fn bad_periods() -> Vec<Bad> {
    let builds: [(&'static str, Build); 4] = [
        ("period", |v| Gcra::with_burst(Quota::new(1, period(v)), 1).map(drop)),
        ("window", |v| FixedWindow::new(Quota::new(1, period(v)), Anchor::FirstHit).map(drop)),
        ("window", |v| SlidingWindow::new(Quota::new(1, period(v))).map(drop)),
        ("window", |v| SlidingLog::new(Quota::new(1, period(v))).map(drop)),
    ];
    let endless = Value::Period(Duration::from_secs(u64::MAX));
    let wrong = [0, 1, 999, 1_001, 1_999].map(nanos);
    let mut bad: Vec<Bad> = Vec::new();
    for (field, build) in builds {
        bad.extend(wrong.map(|value| (field, value, build)));
        bad.extend([micros((1 << 52) + 1), endless].map(|value| (field, value, build)));
    }
    let in_three: Build = |v| SlidingWindow::with_buckets(Quota::new(1, period(v)), 3).map(drop);
    let in_sixty: Build = |v| SlidingWindow::with_buckets(Quota::new(1, period(v)), 60).map(drop);
    bad.extend([
        ("window", micros(10), in_three),
        ("window", micros(1), in_three),
        ("window", micros(59), in_sixty),
        ("window", micros(3_600_000_001), in_sixty),
        ("window", micros((1 << 50) + 1), in_three),
    ]);
    bad
}

fn suggests_what_is_accepted(bad: Vec<Bad>) {
    let mut problems = Vec::new();
    for (field, value, build) in bad {
        let Err(error) = build(value) else {
            problems.push(format!("{field}: {value:?} was accepted"));
            continue;
        };
        assert_eq!(error.code(), Code::ConfigInvalid, "{error}");
        if error.field() != Some(field) || !error.to_string().contains(field) {
            problems.push(format!("{field}: {value:?} is blamed on another field: {error}"));
        }
        let nearest = suggestion(&error, value);
        if let Err(again) = build(nearest) {
            problems.push(format!("{error} — but {nearest:?} is refused: {again}"));
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn a_quota_out_of_range_is_refused_with_its_field_and_a_value_that_is_accepted() {
    suggests_what_is_accepted(bad_units());
    suggests_what_is_accepted(bad_periods());
}

#[test]
fn what_is_suggested_is_accepted_where_two_bounds_meet() {
    let sixty: Build = |v| SlidingWindow::with_buckets(Quota::new(1, period(v)), 60).map(drop);
    let two: Build = |v| SlidingWindow::new(Quota::new(1, period(v))).map(drop);
    let log: Build = |v| SlidingLog::new(Quota::new(1, period(v))).map(drop);
    let slow_queue: Build = |v| LeakyBucket::new(Quota::per_day(7), units(v)).map(drop);
    let queue: Build = |v| LeakyBucket::new(Quota::per_second(1 << 48), units(v)).map(drop);
    let burst: Build = |v| Gcra::with_burst(Quota::per_second(1), units(v)).map(drop);
    let capacity: Build = |v| TokenBucket::new(units(v), Quota::per_second(1)).map(drop);
    suggests_what_is_accepted(vec![
        // The message names burst = queue + 1, the field is the queue.
        ("queue", Value::Units(1 << 40), slow_queue),
        ("queue", Value::Units(1 << 48), queue),
        ("queue", Value::Units(u64::MAX), queue),
        // 2^48 units at once, but not at this rate.
        ("burst", Value::Units((1 << 48) + 1), burst),
        ("capacity", Value::Units(u64::MAX), capacity),
        // The next multiple of the buckets lies beyond the longest window.
        ("window", micros(1 << 50), sixty),
        // A part of a microsecond, and too long or not divisible besides.
        ("window", nanos(1), sixty),
        ("window", Value::Period(Duration::MAX), two),
        ("window", Value::Period(Duration::MAX), log),
    ]);
}

#[test]
fn the_bounds_themselves_are_accepted() {
    let longest = Duration::from_micros(1 << 52);
    let most = 1_u64 << 48;
    Gcra::new(Quota::new(most, Duration::from_micros(1))).unwrap();
    Gcra::with_burst(Quota::new(1, longest), 1).unwrap();
    TokenBucket::new(most, Quota::new(most, longest)).unwrap();
    LeakyBucket::new(Quota::new(most, SECOND), most - 1).unwrap();
    LeakyBucket::new(Quota::per_second(1), 0).unwrap();
    FixedWindow::new(Quota::new(most, longest), Anchor::Epoch).unwrap();
    SlidingWindow::with_buckets(Quota::new(most, Duration::from_micros(60)), 60).unwrap();
    SlidingLog::new(Quota::new(1, Duration::from_micros(1))).unwrap();
}

#[test]
fn costs_out_of_range_are_refused_by_name() {
    for units in [0, 1 << 32, u64::MAX] {
        let error = Cost::new(units).unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::InvalidRequest, Some("cost")));
        assert!(error.to_string().contains("1 to 4294967295"), "{error}");
    }
    assert_eq!(Cost::new(1).unwrap(), Cost::ONE);
    assert_eq!(Cost::new(u64::from(u32::MAX)).unwrap(), Cost::MAX);
}

#[test]
fn the_largest_cost_is_decided_on_every_store() {
    for (name, store) in stores() {
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        let wide = Gcra::new(Quota::new(1 << 40, Duration::from_secs(86_400))).unwrap();
        let (wide, small) = (Limit::new("wide", wide).unwrap(), per_hour("small", 10));
        let most = u64::from(u32::MAX);
        let decision = block_on(limiter.check(charge(&wide, "k", most))).unwrap();
        assert_eq!(decision.remaining, (1 << 40) - most, "{name}");
        let never = block_on(limiter.check(charge(&small, "k", most))).unwrap();
        assert_eq!((never.retry_after_ms, never.remaining), (None, 10), "{name}");
        let charges = [charge(&wide, "k", most), charge(&wide, "k", most)];
        let decision = block_on(limiter.check(&charges)).unwrap();
        assert_eq!(decision.remaining, (1 << 40) - 3 * most, "{name}");
    }
}

#[test]
fn names_are_checked_and_the_error_names_the_field() {
    let algorithm = || Gcra::new(Quota::per_second(1)).unwrap();
    for name in ["", "a b", "a:b", "ä", "a/b", "{a}", "a\0", &"x".repeat(65)] {
        let error = Limit::new(name, algorithm()).unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (Code::ConfigInvalid, Some("policy")),
            "{name:?}"
        );
        assert!(error.message().contains("accepted"), "{error}");
        let error = Limit::new("p", algorithm()).unwrap().with_prefix(name).unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (Code::ConfigInvalid, Some("prefix")),
            "{name:?}"
        );
    }
    for name in ["a", "A-Z_0.9", &"x".repeat(64)] {
        Limit::new(name, algorithm()).unwrap().with_prefix(name).unwrap();
    }
}

#[test]
fn request_ids_are_checked_and_the_error_names_the_field() {
    for id in ["", &"x".repeat(65), &"é".repeat(33)] {
        let error = RequestId::new(id).unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::InvalidRequest, Some("request_id")));
        assert!(error.to_string().contains("1 to 64"), "{error}");
    }
    for (name, store) in stores() {
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        let limit = per_hour("p", 100);
        let ids = ["x", "\0", " ", ":", "{}", "%", "🦀🦀", "é", &"x".repeat(64), &"é".repeat(32)];
        for id in ids {
            let charges = [limit.charge("k")];
            let admission = Admission::of(&charges).request_id(RequestId::new(id).unwrap());
            let first = block_on(limiter.check(&admission)).unwrap();
            assert_eq!(block_on(limiter.check(&admission)).unwrap(), first, "{name}: {id:?}");
        }
        let left = block_on(limiter.forecast(limit.charge("k"))).unwrap().spendable_now;
        assert_eq!(left, 90, "{name}: each id is one of its own");
    }
}

#[test]
fn an_admission_without_charges_is_refused() {
    for (name, store) in stores() {
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        let error = block_on(limiter.check(&[])).unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (Code::InvalidRequest, Some("charges")),
            "{name}"
        );
    }
    let limiter = Limiter::with_clock(Memory::new(), ManualClock::at(NOW)).build();
    let error = limiter.sync().check(&[]).unwrap_err();
    assert_eq!((error.code(), error.field()), (Code::InvalidRequest, Some("charges")));
}

#[test]
fn an_admission_over_too_many_keys_is_refused_and_charges_nothing() {
    let store = BoxStore::new(Memory::new());
    let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
    let limit = per_hour("p", 10);
    let subjects: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let charges: Vec<_> = subjects.iter().map(|subject| limit.charge(subject)).collect();
    let error = block_on(limiter.check(&charges)).unwrap_err();
    assert_eq!((error.code(), error.field()), (Code::InvalidRequest, Some("charges")));
    assert_eq!(block_on(limiter.forecast(limit.charge("0"))).unwrap().spendable_now, 10);
}

#[test]
fn errors_hold_no_key() {
    let secret = "token-of-alice";
    for (name, store) in stores() {
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        let limit = per_hour("p", 10);
        let (one, two) = ([charge(&limit, secret, 1)], [charge(&limit, secret, 2)]);
        let id = RequestId::new("id").unwrap();
        block_on(limiter.check(&Admission::of(&one).request_id(id))).unwrap();
        let error = block_on(limiter.check(&Admission::of(&two).request_id(id))).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(secret), "{name}: {error:?}");
    }
}
