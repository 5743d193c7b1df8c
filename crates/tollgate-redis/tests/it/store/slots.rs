//! Keys of one slot share calls: exactly, wherever the keys are meanwhile.

use std::collections::HashMap;
use std::time::Duration;

use tollgate_core::store::{CallContext, Store, admit_many};
use tollgate_core::{Admission, Code, Limit, Quota, Result, algorithm as a};
use tollgate_redis::Redis;
use tollgate_test_servers::{Mode, RedisBuilder, RedisCluster};
use tollgate_testkit::derive::decisions_of;
use tollgate_testkit::model::ModelQuota;
use tollgate_testkit::runtime::join_all;

use super::{on_one_thread, run};

const UNITS: u64 = 1_000;
const SUBJECTS: usize = 300;
/// So long that nothing comes back while a test runs.
const DAYS: Duration = Duration::from_secs(30 * 86_400);

fn limit(policy: &str) -> Limit {
    let gcra = a::Gcra::new(Quota::new(UNITS, DAYS)).unwrap();
    Limit::new(policy, gcra).unwrap().with_prefix("slots").unwrap()
}

/// With timeouts for a busy machine.
fn store(cluster: &RedisCluster) -> Redis {
    let addr = cluster.nodes()[0].addr();
    let timeouts = "connect_timeout_ms=10000&reply_timeout_ms=60000";
    super::store(&format!("redis-cluster://{addr}?{timeouts}"))
}

/// Charges each subject once, in one batch: the units that are left to each.
fn charge(store: &Redis, limit: &Limit, subjects: &[String]) -> Vec<u64> {
    let charges: Vec<_> = subjects.iter().map(|subject| [limit.charge(subject)]).collect();
    let batch: Vec<_> = charges.iter().map(|charges| Admission::of(charges)).collect();
    let outcomes = run(admit_many(store, &batch, CallContext::store_clock()));
    let left = batch.iter().zip(outcomes).map(|(admission, outcome)| {
        let plan = decisions_of(admission, &outcome.unwrap()).unwrap();
        assert!(plan.admitted);
        plan.decisions[0].remaining
    });
    left.collect()
}

/// What the nodes have counted of a command, or of an error.
fn count(cluster: &RedisCluster, section: &str, line: &str, field: &str) -> u64 {
    let counts = cluster.nodes().iter().map(|node| {
        let info = node.client().unwrap().call(&["INFO", section]).unwrap();
        let info = info.text().unwrap().to_owned();
        let fields = info.lines().find_map(|text| text.strip_prefix(line)).unwrap_or_default();
        let value = fields.split([':', ',']).find_map(|text| text.strip_prefix(field));
        value.map_or(0, |value| value.parse::<u64>().unwrap())
    });
    counts.sum()
}

fn script_calls(cluster: &RedisCluster) -> u64 {
    let calls = |command| count(cluster, "commandstats", command, "calls=");
    calls("cmdstat_evalsha:") + calls("cmdstat_eval:")
}

fn subjects() -> Vec<String> {
    (0..SUBJECTS).map(|subject| format!("subject {subject}")).collect()
}

fn every_algorithm_is_exact(cluster: &RedisCluster) {
    const QUOTA: u64 = 20;
    let store = store(cluster);
    let subjects: Vec<String> = subjects().into_iter().take(60).collect();
    for (variant, quota) in ModelQuota::every_kind(QUOTA, 1 << 46).into_iter().enumerate() {
        let limit = Limit::with_rule(&format!("v{variant}"), quota.rule().unwrap()).unwrap();
        let limit = limit.with_prefix("slots").unwrap();
        let charges: Vec<_> = subjects.iter().map(|subject| [limit.charge(subject)]).collect();
        let batch: Vec<_> = charges.iter().map(|charges| Admission::of(charges)).collect();
        for spent in 0..QUOTA + 3 {
            let outcomes = run(admit_many(&store, &batch, CallContext::store_clock()));
            for (admission, outcome) in batch.iter().zip(outcomes) {
                let plan = decisions_of(admission, &outcome.unwrap()).unwrap();
                assert_eq!(plan.admitted, spent < QUOTA, "{quota:?}, {spent} spent");
            }
        }
    }
}

fn keys_share_calls_within_a_slot(cluster: &RedisCluster) {
    let (store, limit) = (store(cluster), limit("slots"));
    let subjects = subjects();
    charge(&store, &limit, &subjects);
    let before = script_calls(cluster);
    assert_eq!(charge(&store, &limit, &subjects), vec![UNITS - 2; subjects.len()]);
    let slots: HashMap<u16, ()> = subjects
        .iter()
        .map(|subject| (cluster.slot_of_key(&limit.key(subject).to_text()).unwrap(), ()))
        .collect();
    assert_eq!(script_calls(cluster) - before, slots.len() as u64);
}

/// Two slots move to the same node at once: the key of one has moved, that of the other has not. A
/// call for the first key must not charge the second one there.
fn keys_that_move_are_charged_where_they_are(cluster: &RedisCluster) {
    let (store, limit) = (store(cluster), limit("moving"));
    let at_first =
        |subject: &String| cluster.owner_of_key(&limit.key(subject).to_text()).unwrap() == 0;
    let all = subjects();
    let mut own = all.into_iter().filter(at_first);
    let [gone, staying, other, late] = [(); 4].map(|()| own.next().unwrap());
    let slot = |subject: &str| cluster.slot_of_key(&limit.key(subject).to_text()).unwrap();
    let mut spent = HashMap::<String, u64>::new();
    let mut check = |order: &[&String], stage: &str| {
        let order: Vec<String> = order.iter().map(|subject| (*subject).clone()).collect();
        let left = charge(&store, &limit, &order);
        for (subject, left) in order.iter().zip(left) {
            let spent = spent.entry(subject.clone()).or_default();
            *spent += 1;
            assert_eq!(left, UNITS - *spent, "{subject} of {order:?}, {stage}");
        }
    };
    let orders = [[&gone, &staying, &other], [&staying, &other, &gone], [&other, &gone, &staying]];
    orders.iter().for_each(|order| check(order, "at home"));
    let mut moves =
        [&gone, &staying, &late].map(|subject| cluster.begin_move(slot(subject), 1).unwrap());
    orders.iter().for_each(|order| check(order, "announced"));
    assert_eq!(moves[0].move_keys(10).unwrap(), 1);
    for order in &orders {
        check(order, "one has moved");
        check(&[&late, order[0], order[1]], "one has moved, one is made there");
        check(&[order[2], &late], "one has moved, one is made there");
    }
    assert_eq!(moves[1].move_keys(10).unwrap(), 1);
    orders.iter().for_each(|order| check(order, "both have moved"));
    moves.into_iter().for_each(|moving| moving.finish().unwrap());
    for order in &orders {
        check(order, "settled");
        check(&[&late, order[1]], "settled");
    }
}

/// A key has moved to a node that hangs; the keys of other slots have not.
#[test]
fn a_node_that_hangs_delays_no_keys_of_other_nodes() {
    const ENOUGH: Duration = Duration::from_secs(30);
    let cluster = RedisCluster::start(2).unwrap();
    let proxies = cluster.behind_proxies().unwrap();
    let timeouts = "connect_timeout_ms=10000&reply_timeout_ms=60000";
    let url = format!("redis-cluster://{}?{timeouts}", proxies[0].addr());
    let limit = limit("hanging");
    let window = a::FixedWindow::new(Quota::new(UNITS, DAYS), a::Anchor::FirstHit).unwrap();
    let another = Limit::new("another", window).unwrap().with_prefix("slots").unwrap();
    let is_first =
        |subject: &String| cluster.owner_of_key(&limit.key(subject).to_text()).unwrap() == 0;
    let own: Vec<String> = subjects().into_iter().filter(is_first).take(65).collect();
    let (gone, others) = own.split_first().unwrap();
    on_one_thread(async {
        let store = Redis::open(url.parse().unwrap()).unwrap();
        let ask = |limit: &Limit, subject: &String| {
            let (store, limit, subject) = (store.clone(), limit.clone(), subject.clone());
            async move {
                let charges = [limit.charge(&subject)];
                store.admit(&Admission::of(&charges), CallContext::store_clock()).await
            }
        };
        for subject in &own {
            ask(&limit, subject).await.unwrap();
        }
        ask(&another, gone).await.unwrap();
        let slot = cluster.slot_of_key(&limit.key(gone).to_text()).unwrap();
        let mut moving = cluster.begin_move(slot, 1).unwrap();
        assert_eq!(moving.move_keys(10).unwrap(), 2);
        ask(&limit, gone).await.unwrap();
        proxies[1].set(Mode::Hold).unwrap();
        let mut held_up: Vec<_> = (0..4).map(|_| tokio::spawn(ask(&limit, gone))).collect();
        for round in 0..10 {
            held_up.extend([&limit, &another].map(|limit| tokio::spawn(ask(limit, gone))));
            let all = join_all(others.iter().map(|subject| ask(&limit, subject)));
            let answers = tokio::time::timeout(ENOUGH, all).await;
            let answers = answers.unwrap_or_else(|_| panic!("held up in round {round}"));
            assert!(answers.iter().all(Result::is_ok), "round {round}: {answers:?}");
        }
        assert!(held_up.iter().all(|one| !one.is_finished()), "a call was answered");
        proxies[1].set(Mode::Pass).unwrap();
        for one in held_up {
            one.await.unwrap().unwrap();
        }
        // One before it moved, one after, four at first and one in each round.
        let last = ask(&limit, gone).await.unwrap();
        let charges = [limit.charge(gone)];
        let plan = decisions_of(&Admission::of(&charges), &last).unwrap();
        assert_eq!(plan.decisions[0].remaining, UNITS - 17);
    });
}

/// A right that is missing for one key fails the charges of that key only.
#[test]
fn a_key_without_rights_fails_alone() {
    let rights = "~slots:* %R~readable:* +@all";
    let cluster = RedisBuilder::default()
        .user(&format!("limiter on >pa55 {rights}"))
        .start_cluster(2)
        .unwrap();
    let addr = cluster.nodes()[0].addr();
    let timeouts = "connect_timeout_ms=10000&reply_timeout_ms=60000";
    let url = format!("redis-cluster://limiter:pa55@{addr}?{timeouts}");
    let store = super::store(&url);
    let own = limit("rights");
    let [readable, hidden] =
        ["readable", "hidden"].map(|prefix| limit("rights").with_prefix(prefix).unwrap());
    let is_first =
        |subject: &String| cluster.owner_of_key(&own.key(subject).to_text()).unwrap() == 0;
    let subjects: Vec<String> = subjects().into_iter().filter(is_first).take(5).collect();
    assert_eq!(charge(&store, &own, &subjects), [UNITS - 1; 5]);
    let mut spent = 1;
    for wrong in [&readable, &hidden] {
        for place in [0, 2, 5] {
            let mut charges: Vec<_> = subjects.iter().map(|one| [own.charge(one)]).collect();
            charges.insert(place, [wrong.charge(&subjects[0])]);
            let batch: Vec<_> = charges.iter().map(|charges| Admission::of(charges)).collect();
            let outcomes = run(admit_many(&store, &batch, CallContext::store_clock()));
            spent += 1;
            for (index, (admission, outcome)) in batch.iter().zip(outcomes).enumerate() {
                if index == place {
                    let error = outcome.unwrap_err();
                    assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
                    assert!(error.to_string().contains("NOPERM"), "{error}");
                    continue;
                }
                let plan = decisions_of(admission, &outcome.unwrap()).unwrap();
                assert_eq!(plan.decisions[0].remaining, UNITS - spent, "{place}");
            }
        }
    }
}

macro_rules! on_each {
    ($($test:ident)*) => {
        $(mod $test {
            use tollgate_test_servers::{RedisBuilder, RedisCluster};

            #[test]
            fn on_redis_7() {
                super::$test(&RedisCluster::start(3).unwrap());
            }

            #[test]
            fn on_redis_8() {
                super::$test(&RedisBuilder::default().redis_8().start_cluster(3).unwrap());
            }

            #[test]
            fn on_valkey() {
                super::$test(&RedisBuilder::default().valkey().start_cluster(3).unwrap());
            }
        })*
    };
}

on_each! {
    every_algorithm_is_exact
    keys_share_calls_within_a_slot
    keys_that_move_are_charged_where_they_are
}
