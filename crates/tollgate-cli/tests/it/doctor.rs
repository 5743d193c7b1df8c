//! The checklist for production, compared with a configuration.

use std::time::Duration;

use tollgate_test_servers::{FaultProxy, Mode, PgVersion, Postgres, Redis};

use crate::{file, run};

#[test]
fn a_configuration_is_compared_with_the_checklist() {
    let redis = Redis::start().unwrap();
    let store = format!("store: {}\n", redis.url());
    let unsafe_choices = "http: off
deadline: 5s
policies:
  a: {limit: 1 per 1s}
  b: {limit: 1 per 1s, shadow: true}
";
    let unsafe_choices = file("unsafe.yaml", &format!("{store}{unsafe_choices}"));
    let (_, text, error) = run(&["doctor", "--config", unsafe_choices.to_str().unwrap()]);
    for advice in [
        "deadline: 5s is the wait",
        "http is off",
        "on_outage: every policy",
        "prefix: a, b, default would share",
        "limits: no policy has several",
        "hash_keys: the number of keys of a, b, default",
        "shadow: b never denies",
    ] {
        assert!(text.contains(&format!("Consider: {advice}")), "{advice}: {text}{error}");
    }
    let safe = "deadline: 100ms
hash_secret: s
policies:
  default:
    prefix: prod
    hash_keys: 64
    on_outage: closed
    limits: [{name: a, limit: 1 per 1s}, {name: b, limit: 9 per 1m}]
";
    let safe = file("safe.yaml", &format!("{store}{safe}"));
    let (_, text, error) = run(&["doctor", "--config", safe.to_str().unwrap()]);
    assert!(!text.contains("Consider:"), "{text}{error}");
    // An invalid file is not examined.
    let wrong = file("invalid.yaml", "deadlin: 1s\n");
    let (fine, _, error) = run(&["doctor", "--config", wrong.to_str().unwrap()]);
    assert!(!fine && error.contains("deadlin"), "{error}");
}

/// A round on PostgreSQL takes several round trips, so callers that share a key wait for longer
/// than the deadline.
#[test]
fn what_hot_keys_will_get_from_a_distant_postgres_is_said() {
    let postgres = Postgres::start(PgVersion::V18).unwrap();
    let proxy = FaultProxy::to(postgres.addr()).unwrap();
    let store = format!("postgres://postgres@{}/postgres", proxy.addr());
    let (_, text, error) = run(&["doctor", "--store", &store]);
    assert!(text.contains("30 of 100 concurrent callers passed"), "{text}{error}");
    assert!(text.contains("waited for others on their key until their deadline"), "{text}{error}");
    proxy.set(Mode::Latency(Duration::from_millis(60))).unwrap();
    let (fine, text, error) = run(&["doctor", "--store", &store]);
    assert!(!fine && text.contains("Consider: store: a round trip takes 6"), "{text}{error}");
    for part in [
        "decisions on hot keys will time out: with 100 callers on one key, ",
        "decisions will time out, whatever the key: with 100 callers on many keys, ",
        " by the outage mode (timeout: ",
    ] {
        assert!(error.contains(part), "{part}: {text}{error}");
    }
}

/// What many callers at once would notice is measured, not concluded from a single call.
#[test]
fn a_store_that_is_slower_than_the_deadline_is_named() {
    let redis = Redis::start().unwrap();
    let proxy = FaultProxy::to(redis.addr()).unwrap();
    let store = format!("redis://{}", proxy.addr());
    let (_, text, _) = run(&["doctor", "--store", &store]);
    assert!(text.contains("100 callers on one key: "), "{text}");
    assert!(text.contains("100 callers on many keys: "), "{text}");
    proxy.set(Mode::Latency(Duration::from_millis(150))).unwrap();
    let (fine, text, error) = run(&["doctor", "--store", &store]);
    assert!(!fine, "{text}");
    for part in ["is less than two round trips", "on one key, ", "on many keys, "] {
        assert!(error.contains(part), "{part}: {text}{error}");
    }
}

#[test]
fn a_store_that_refuses_to_write_is_named() {
    let redis = Redis::builder().max_memory(1, "noeviction").start().unwrap();
    let (fine, text, error) = run(&["doctor", "--store", &redis.url()]);
    assert!(
        !fine && error.contains("100 of 100 concurrent calls were not decided"),
        "{text}{error}"
    );
    assert!(error.contains("memory"), "{error}");
}
