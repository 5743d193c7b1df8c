//! What others do to our keys and to the server: never a refusal for ever, never open doors.

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Code, Cost, Decision, Limit, Quota, Result, algorithm as a};
use tollgate_redis::Redis;
use tollgate_test_servers::{Redis as Server, resp, shared};
use tollgate_testkit::derive::decisions_of;

use super::{run, store};

const DAY: std::time::Duration = std::time::Duration::from_secs(86_400);

fn limit(policy: &str) -> Limit {
    let gcra = a::Gcra::new(Quota::new(5, DAY)).unwrap();
    Limit::new(policy, gcra).unwrap().with_prefix("damage").unwrap()
}

fn log(policy: &str) -> Limit {
    let log = a::SlidingLog::new(Quota::new(5, DAY)).unwrap();
    Limit::new(policy, log).unwrap().with_prefix("damage").unwrap()
}

fn check(store: &Redis, limit: &Limit, units: u64) -> Result<Decision> {
    let charges = [limit.charge("subject").cost(Cost::new(units).unwrap())];
    let admission = Admission::of(&charges);
    let outcome = run(store.admit(&admission, CallContext::store_clock()))?;
    Ok(decisions_of(&admission, &outcome)?.decisions.remove(0))
}

fn name(limit: &Limit) -> String {
    limit.key("subject").to_text()
}

fn raw(redis: &Server, words: &[&str]) -> resp::Reply {
    redis.client().unwrap().call(words).unwrap().ok().unwrap()
}

#[test]
fn a_key_of_another_type_is_corrupt_until_it_is_reset() {
    let (redis, store) = (shared::redis(), store(&shared::redis().url()));
    for limit in [limit("type"), log("type-log")] {
        let key = name(&limit);
        for words in [["HSET", &key, "a", "1"], ["ZADD", &key, "1", "a"]] {
            raw(redis, &["DEL", &key]);
            raw(redis, &words);
            let error = check(&store, &limit, 1).unwrap_err();
            assert_eq!(error.code(), Code::CorruptState, "{error}");
            assert!(!error.to_string().contains("subject"), "{error}");
        }
        run(store.reset(limit.key("subject"), CallContext::store_clock())).unwrap();
        assert!(check(&store, &limit, 1).unwrap().is_allowed());
    }
}

#[test]
fn texts_and_lists_of_others_are_corrupt_until_the_key_is_reset() {
    let (redis, store) = (shared::redis(), store(&shared::redis().url()));
    for limit in [limit("foreign"), log("foreign-log")] {
        let key = name(&limit);
        let odd = [
            vec!["SET", &key, "hello"],
            vec!["SET", &key, "[1,2,3,4,99999999999999999999,0]"],
            vec!["SET", &key, "[999,2,3,4,5]"],
            vec!["SET", &key, ""],
            vec!["RPUSH", &key, "hello"],
            vec!["RPUSH", &key, "6,86400000000,0,5;0", "x"],
            vec!["RPUSH", &key, "6,86400000000,0,5;0", "x", "9999999999999999;1"],
        ];
        for words in odd {
            raw(redis, &["DEL", &key]);
            raw(redis, &words);
            match check(&store, &limit, 1) {
                Err(error) => assert_eq!(error.code(), Code::CorruptState, "{words:?}: {error}"),
                Ok(decision) => panic!("{words:?}: {decision:?}"),
            }
            run(store.reset(limit.key("subject"), CallContext::store_clock())).unwrap();
            assert!(check(&store, &limit, 1).unwrap().is_allowed(), "{words:?}");
            raw(redis, &["DEL", &key]);
        }
    }
}

/// Scripts compare a state with what they expect instead of reading all of it.
#[test]
fn no_byte_of_a_state_can_be_damaged_unnoticed() {
    let (redis, store) = (shared::redis(), store(&shared::redis().url()));
    let limit = limit("bytes");
    let key = name(&limit);
    assert!(check(&store, &limit, 1).unwrap().is_allowed());
    let state = raw(redis, &["GET", &key]).text().unwrap().to_owned();
    for at in 0..state.len() {
        let (before, after) = (&state[..at], &state[at + 1..]);
        for damaged in
            [format!("{before}x{after}"), format!("{before}{at}x{after}"), before.to_owned()]
        {
            raw(redis, &["SET", &key, &damaged]);
            let error = check(&store, &limit, 1).unwrap_err();
            assert_eq!(error.code(), Code::CorruptState, "{damaged}: {error}");
        }
    }
    raw(redis, &["SET", &key, &state]);
    assert_eq!(check(&store, &limit, 1).unwrap().remaining, 3);
}

#[test]
fn a_key_without_an_expiry_comes_back_all_the_same() {
    let (redis, store) = (shared::redis(), store(&shared::redis().url()));
    let gcra = a::Gcra::new(Quota::new(1, std::time::Duration::from_micros(1))).unwrap();
    let limit = Limit::new("persisted", gcra).unwrap().with_prefix("damage").unwrap();
    assert!(check(&store, &limit, 1).unwrap().is_allowed());
    assert_eq!(raw(redis, &["PERSIST", &name(&limit)]).integer(), Some(1));
    // A microsecond later by the server's clock the unit is back, expiry or not.
    assert!(check(&store, &limit, 1).unwrap().is_allowed());
    assert!(raw(redis, &["PTTL", &name(&limit)]).integer().unwrap() > 0, "the expiry is set anew");
}

#[test]
fn a_server_without_memory_refuses_and_does_not_fail_open() {
    let redis = Server::builder().max_memory(0, "noeviction").start().unwrap();
    let store = store(&redis.url());
    let (gcra, log) = (limit("memory"), log("memory-log"));
    for limit in [&gcra, &log] {
        assert_eq!(check(&store, limit, 4).unwrap().remaining, 1);
    }
    raw(&redis, &["CONFIG", "SET", "maxmemory", "1"]);
    for limit in [&gcra, &log] {
        let error = check(&store, limit, 1).unwrap_err();
        assert_eq!(error.code(), Code::StoreFull, "{error}");
        assert!(!error.code().is_outage());
        // What needs no write is still decided.
        assert!(!check(&store, limit, 5).unwrap().is_allowed());
    }
    raw(&redis, &["CONFIG", "SET", "maxmemory", "0"]);
    for limit in [&gcra, &log] {
        assert_eq!(check(&store, limit, 1).unwrap().remaining, 0);
        assert!(!check(&store, limit, 1).unwrap().is_allowed());
    }
}

#[test]
fn forgotten_scripts_are_sent_again() {
    let redis = Server::start().unwrap();
    let store = store(&redis.url());
    let limit = limit("flush");
    for left in (0..5).rev() {
        raw(&redis, &["SCRIPT", "FLUSH"]);
        assert_eq!(check(&store, &limit, 1).unwrap().remaining, left);
    }
    raw(&redis, &["SCRIPT", "FLUSH"]);
    assert!(!check(&store, &limit, 1).unwrap().is_allowed());
}
