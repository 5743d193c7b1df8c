//! Slots that move while users' algorithms without a script charge them.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;
use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Charge, Code, Limit, Result};
use tollgate_redis::Redis;
use tollgate_test_servers::{RedisBuilder, RedisCluster};
use tollgate_testkit::derive::decisions_of;

use super::custom::cooldown;
use super::load::{Load, SOON, Tally};
use super::{encrypted_cluster, encrypted_cluster_url, run, store};

/// Without a script.
fn unscripted(prefix: &str, policy: &str, units: u64) -> Limit {
    let limit = Limit::with_rule(policy, cooldown(units, None)).unwrap();
    limit.with_prefix(prefix).unwrap()
}

/// The units that are left after these charges, if all of them were made.
fn admit(store: &Redis, charges: &[Charge<'_>]) -> Result<Option<Vec<u64>>> {
    let admission = Admission::of(charges);
    let outcome = run(store.admit(&admission, CallContext::store_clock()))?;
    let plan = decisions_of(&admission, &outcome).unwrap();
    let left = plan.decisions.iter().map(|decision| decision.remaining).collect();
    Ok(plan.admitted.then_some(left))
}

/// Knows one node, and has timeouts for a busy machine.
fn with_long_timeouts(cluster: &RedisCluster) -> Redis {
    let addr = cluster.nodes()[0].addr();
    let timeouts = "connect_timeout_ms=10000&reply_timeout_ms=10000";
    store(&format!("redis-cluster://{addr}?{timeouts}"))
}

/// One key that is there before the slot moves, and one that is made meanwhile.
fn followed_at_every_stage(cluster: &RedisCluster, store: &Redis) {
    let [old, new, late] = ["old", "new", "late"].map(|policy| unscripted("moves", policy, 50));
    let [old, new, late] = [old.charge("a"), new.charge("a"), late.charge("a")];
    let left = |charges: &[Charge<'_>]| admit(store, charges).unwrap().unwrap();
    let slot = cluster.slot_of_key(&old.key().to_text()).unwrap();
    let to = 1 - cluster.owner(slot).unwrap();
    assert_eq!(left(&[old]), [49]);
    let mut moving = cluster.begin_move(slot, to).unwrap();
    // The one is still at the source; the other is made at the target, which is only asked.
    assert_eq!(left(&[old]), [48]);
    assert_eq!(left(&[new]), [49]);
    assert_eq!(left(&[new]), [48]);
    // Together they are on no node: every attempt is lost, and nothing is charged.
    let error = admit(store, &[old, new]).unwrap_err();
    assert!(error.is_not_sent(), "{error}");
    assert_eq!(error.code(), Code::ConflictExhausted, "the cluster answers: {error}");
    while moving.move_keys(100).unwrap() > 0 {}
    assert_eq!(left(&[old]), [47]);
    assert_eq!(left(&[old, new]), [46, 47]);
    assert_eq!(left(&[late]), [49]);
    moving.finish().unwrap();
    assert_eq!(left(&[old, new, late]), [45, 46, 48]);
    assert_eq!(cluster.owner(slot).unwrap(), to);
}

#[test]
fn unscripted_keys_that_move_are_followed_at_every_stage() {
    let cluster = RedisCluster::start(2).unwrap();
    followed_at_every_stage(&cluster, &with_long_timeouts(&cluster));
}

#[test]
fn unscripted_keys_that_move_are_followed_over_tls_by_a_user_of_few_rights() {
    let cluster = encrypted_cluster(2);
    followed_at_every_stage(&cluster, &store(&encrypted_cluster_url(&cluster)));
}

#[test]
fn unscripted_keys_that_move_are_followed_on_redis_8() {
    let cluster = RedisBuilder::default().redis_8().start_cluster(2).unwrap();
    followed_at_every_stage(&cluster, &with_long_timeouts(&cluster));
}

#[test]
fn an_encrypted_cluster_that_cannot_be_verified_gets_no_command() {
    let [cluster, other] = [encrypted_cluster(1), encrypted_cluster(1)];
    let own = cluster.certificates().unwrap().authority().display().to_string();
    let foreign = other.certificates().unwrap().authority().display().to_string();
    let wrong = encrypted_cluster_url(&cluster).replace(&own, &foreign);
    let limit = unscripted("unverified", "policy", 5);
    let error = admit(&store(&wrong), &[limit.charge("a")]).unwrap_err();
    assert!(error.is_outage() && error.is_not_sent(), "{error}");
    assert!(error.to_string().contains("TLS"), "{error}");
    let keys = cluster.nodes()[0].client().unwrap().call(&["DBSIZE"]).unwrap();
    assert_eq!(keys.integer(), Some(0));
    let left = admit(&store(&encrypted_cluster_url(&cluster)), &[limit.charge("a")]).unwrap();
    assert_eq!(left, Some(vec![4]));
}

/// Callers of two processes' worth of stores, who never agree on anything but the server.
#[test]
fn an_unscripted_key_that_moves_under_load_is_charged_exactly() {
    const UNITS: u64 = 10_000;
    const STEP: u64 = 200;
    let cluster = RedisCluster::start(3).unwrap();
    let limit = unscripted("load", "policy", UNITS);
    let loads = [0, 1].map(|_| Load::start(&with_long_timeouts(&cluster), &limit, 16));
    let admitted = || loads.iter().map(Load::admitted).sum::<u64>();
    let more = || {
        let (before, from) = (admitted(), Instant::now());
        while admitted() < before + STEP {
            assert!(from.elapsed() < SOON, "stuck at {} of {UNITS}", admitted());
            std::thread::yield_now();
        }
    };
    let slot = cluster.slot_of_key(&limit.key("shared").to_text()).unwrap();
    let to = (cluster.owner(slot).unwrap() + 1) % 3;
    more();
    let mut moving = cluster.begin_move(slot, to).unwrap();
    more();
    assert_eq!(moving.move_keys(1).unwrap(), 1);
    more();
    assert_eq!(moving.move_keys(1).unwrap(), 0, "the source made the key anew");
    moving.finish().unwrap();
    let tallies = loads.map(Load::finish);
    let sum = |count: fn(&Tally) -> &AtomicU64| {
        tallies.iter().map(|tally| count(tally).load(Ordering::SeqCst)).sum::<u64>()
    };
    let admitted = sum(|tally| &tally.admitted);
    let (failed, unknown) = (sum(|tally| &tally.failed), sum(|tally| &tally.unknown));
    println!("{admitted} of {UNITS} admitted, {failed} calls failed, {unknown} are unknown");
    assert!(admitted <= UNITS, "over-admitted");
    assert!(UNITS - admitted <= unknown);
    assert_eq!(cluster.owner(slot).unwrap(), to);
}
