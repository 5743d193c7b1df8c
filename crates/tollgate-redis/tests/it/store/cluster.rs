//! Three masters: what they can do at once, and what they do one after another. On Redis 7 and 8.

use tollgate_core::store::Retries;
use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Charge, Limit, Quota, RequestId, algorithm as a};
use tollgate_redis::client::Client;
use tollgate_redis::{Config, KeyLayout, Redis};
use tollgate_test_servers::{RedisCluster, resp, shared};
use tollgate_testkit::contention::{self, Losses};
use tollgate_testkit::derive::decisions_of;
use tollgate_testkit::runtime::join_all;

use super::{cluster_url, run, store};

const DAY: std::time::Duration = std::time::Duration::from_secs(86_400);

fn gcra(prefix: &str, policy: &str, units: u64) -> Limit {
    let gcra = a::Gcra::new(Quota::new(units, DAY)).unwrap();
    Limit::new(policy, gcra).unwrap().with_prefix(prefix).unwrap()
}

fn remaining(store: &Redis, charge: Charge<'_>) -> u64 {
    let loaded = run(store.load(&[charge], CallContext::store_clock())).unwrap();
    let words = loaded.states.first().cloned().flatten();
    let words = words.map_or_else(Vec::new, |state| state.words.to_vec());
    charge.rule().peek(&words, loaded.now, charge.cost).remaining
}

fn admits(store: &Redis, admission: &Admission<'_>) -> bool {
    let outcome = run(store.admit(admission, CallContext::store_clock())).unwrap();
    decisions_of(admission, &outcome).unwrap().admitted
}

fn a_denied_combination_over_slots_is_undone_exactly(cluster: &RedisCluster) {
    let store = store(&cluster_url(cluster));
    let (wide, narrow) = (gcra("across", "wide", 100), gcra("across", "narrow", 3));
    let charges = [wide.charge("alice"), narrow.charge("some route"), wide.charge("bob")];
    let admission = Admission::of(&charges);
    let admitted = (0..10).filter(|_| admits(&store, &admission)).count();
    assert_eq!(admitted, 3);
    assert_eq!(remaining(&store, charges[0]), 97);
    assert_eq!(remaining(&store, charges[1]), 0);
    assert_eq!(remaining(&store, charges[2]), 97);
}

fn every_algorithm_is_undone_exactly(cluster: &RedisCluster) {
    let store = store(&cluster_url(cluster));
    let narrow = gcra("undo", "narrow", 1);
    let quotas = tollgate_testkit::model::ModelQuota::every_kind(20, 86_400_000_000);
    assert!(admits(&store, &Admission::of(&[narrow.charge("spent")])));
    for (variant, quota) in quotas.into_iter().enumerate() {
        let limit = Limit::with_rule(&format!("v{variant}"), quota.rule().unwrap()).unwrap();
        let limit = limit.with_prefix("undo").unwrap();
        for subject in 0..8 {
            let subject = format!("subject {subject}");
            let charges = [limit.charge(&subject), narrow.charge("spent")];
            assert!(!admits(&store, &Admission::of(&charges)), "{quota:?}");
            assert_eq!(remaining(&store, charges[0]), 20, "{quota:?}");
        }
    }
}

fn under_contention_no_more_is_admitted_than_the_quota_and_little_less(cluster: &RedisCluster) {
    let store = store(&cluster_url(cluster));
    let (one, two) = (gcra("contended", "one", 50), gcra("contended", "two", 50));
    let charges = [one.charge("alice"), two.charge("some route")];
    let admission = Admission::of(&charges);
    let outcomes =
        run(join_all((0..200).map(|_| store.admit(&admission, CallContext::store_clock()))));
    let admitted = outcomes
        .into_iter()
        .filter(|outcome| decisions_of(&admission, outcome.as_ref().unwrap()).unwrap().admitted)
        .count();
    println!("{admitted} of 50 admitted at once by 200 callers over two slots");
    assert!(admitted <= 50, "{admitted}");
    // Nothing stays charged for denied callers: the rest can still be spent.
    let rest = (0..60).filter(|_| admits(&store, &admission)).count();
    assert_eq!(admitted + rest, 50);
    assert_eq!((remaining(&store, charges[0]), remaining(&store, charges[1])), (0, 0));
}

/// Other callers race with giving back what was charged.
fn callers_that_lose_races_over_slots_are_never_admitted(cluster: &RedisCluster) {
    // Units that do not come back by themselves while the test runs.
    let window = a::FixedWindow::new(Quota::new(1 << 30, 30 * DAY), a::Anchor::FirstHit).unwrap();
    let many = Limit::new("many", window).unwrap().with_prefix("losers").unwrap();
    let full = gcra("losers", "full", 1);
    let [first, last] =
        [many.key("hot"), full.key("full")].map(|key| cluster.slot_of_key(&key.to_text()).unwrap());
    assert!(first < last, "the one that is denied has to be charged last");
    let losses = Losses::default();
    let url = cluster_url(cluster);
    assert!(admits(&store(&url), &Admission::of(&[full.charge("full")])));
    run(async {
        let transport = Client::open(url.parse().unwrap()).unwrap();
        let loser = Redis::with_options(
            transport,
            KeyLayout::default(),
            Retries::default(),
            losses.clone(),
        );
        let stores = (loser, Redis::open(url.parse().unwrap()).unwrap());
        let limits = [&many, &full];
        contention::losers_over_several_keys_are_never_let_in(stores, &losses, limits, 0).await;
    });
}

fn a_request_id_over_slots_charges_once(cluster: &RedisCluster) {
    let store = store(&cluster_url(cluster));
    let limit = gcra("once", "over", 100);
    let charges = [limit.charge("alice"), limit.charge("bob"), limit.charge("carol")];
    let admission = Admission::of(&charges).request_id(RequestId::new("request 1").unwrap());
    let outcomes =
        run(join_all((0..20).map(|_| store.admit(&admission, CallContext::store_clock()))));
    let plans: Vec<_> = outcomes
        .into_iter()
        .map(|outcome| decisions_of(&admission, &outcome.unwrap()).unwrap())
        .collect();
    assert!(plans.iter().all(|plan| plan.admitted && plan.decisions == plans[0].decisions));
    for charge in charges {
        assert_eq!(remaining(&store, charge), 99);
    }
}

fn a_request_id_over_slots_is_replayed_although_a_key_is_full(cluster: &RedisCluster) {
    let store = store(&cluster_url(cluster));
    let (wide, full) = (gcra("again", "wide", 100), gcra("again", "full", 1));
    let charges = [wide.charge("alice"), full.charge("bob"), full.charge("carol")];
    let admission = Admission::of(&charges).request_id(RequestId::new("request 1").unwrap());
    let admit = || run(store.admit(&admission, CallContext::store_clock())).unwrap();
    let (first, again) = (admit(), admit());
    let decisions = |evidence| decisions_of(&admission, evidence).unwrap().decisions;
    assert!(first.replayed.is_none() && again.replayed.is_some());
    assert_eq!(decisions(&first), decisions(&again));
    assert_eq!(charges.map(|charge| remaining(&store, charge)), [99, 0, 0]);
}

fn by_prefix_any_keys_are_charged_at_once(cluster: &RedisCluster) {
    let config: Config = cluster_url(cluster).parse().unwrap();
    let store = Redis::open(config.layout(KeyLayout::ByPrefix)).unwrap();
    let (one, two) = (gcra("together", "one", 50), gcra("together", "two", 50));
    let charges = [one.charge("alice"), two.charge("some route")];
    let admission = Admission::of(&charges);
    let outcomes =
        run(join_all((0..200).map(|_| store.admit(&admission, CallContext::store_clock()))));
    let admitted = outcomes
        .into_iter()
        .filter(|outcome| decisions_of(&admission, outcome.as_ref().unwrap()).unwrap().admitted)
        .count();
    assert_eq!(admitted, 50);
}

fn keys_are_called_what_the_documentation_says(cluster: &RedisCluster) {
    let store = store(&cluster_url(cluster));
    let limit = gcra("named", "policy", 5);
    assert!(admits(&store, &Admission::of(&[limit.charge("user:1")])));
    let key = "named:policy:{user%3A1}";
    let node = &cluster.nodes()[cluster.owner_of_key(key).unwrap()];
    let text = node.client().unwrap().call(&["GET", key]).unwrap();
    assert!(matches!(&text, resp::Reply::Bulk(text) if text.starts_with(b"[1,")), "{text:?}");
}

macro_rules! on {
    ($engine:ident, $($test:ident)*) => {
        mod $engine {
            $(#[test]
            fn $test() {
                super::$test(super::$engine());
            })*
        }
    };
}

fn redis_7() -> &'static RedisCluster {
    shared::redis_cluster()
}

fn redis_8() -> &'static RedisCluster {
    shared::redis_8_cluster()
}

macro_rules! on_each {
    ($($test:ident)*) => {
        on! { redis_7, $($test)* }
        on! { redis_8, $($test)* }
    };
}

on_each! {
    a_denied_combination_over_slots_is_undone_exactly
    every_algorithm_is_undone_exactly
    under_contention_no_more_is_admitted_than_the_quota_and_little_less
    callers_that_lose_races_over_slots_are_never_admitted
    a_request_id_over_slots_charges_once
    a_request_id_over_slots_is_replayed_although_a_key_is_full
    by_prefix_any_keys_are_charged_at_once
    keys_are_called_what_the_documentation_says
}
