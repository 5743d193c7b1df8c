//! Keys of several slots that one node serves share calls: exactly, wherever the keys are meanwhile, and only
//! on a node that refuses keys of other nodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::{At, Store};
use tollgate_core::{Admission, Limit, Quota, Result, algorithm as a};
use tollgate_redis::RedisStore;
use tollgate_redis::client::Client;
use tollgate_redis::transport::{Call, Districts, Reply, Sharing, Spawner, Transport};
use tollgate_testkit::derive::decisions_of;
use tollgate_testkit::model::ModelQuota;
use tollgate_testkit::runtime::join_all;
use tollgate_testkit::servers::RedisCluster;

use super::{RUNTIME, on_one_thread, run};

const UNITS: u64 = 1_000;
const SUBJECTS: usize = 300;

fn limit(policy: &str) -> Limit {
    let gcra = a::Gcra::new(Quota::new(UNITS, Duration::from_secs(30 * 86_400))).unwrap();
    Limit::new(policy, gcra).unwrap().with_prefix("districts").unwrap()
}

/// Has patience with a busy machine.
fn client(cluster: &RedisCluster, options: &str) -> Client {
    let addr = cluster.nodes()[0].addr();
    let timeouts = "connect_timeout_ms=10000&reply_timeout_ms=60000";
    Client::open(&format!("redis-cluster://{addr}?{timeouts}{options}")).unwrap()
}

fn store<T: Transport>(transport: T) -> RedisStore<T> {
    let _in_runtime = RUNTIME.enter();
    RedisStore::over(transport)
}

/// Charges each subject once, in one batch: the units that are left to each.
fn charge<T: Transport>(store: &RedisStore<T>, limit: &Limit, subjects: &[String]) -> Vec<u64> {
    let charges: Vec<_> = subjects.iter().map(|subject| [limit.charge(subject)]).collect();
    let batch: Vec<_> = charges.iter().map(|charges| Admission::of(charges)).collect();
    let outcomes = run(store.admit_many(&batch, At::StoreClock));
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

fn keys_of_one_node_share_calls(cluster: &RedisCluster) {
    let (store, limit) = (store(client(cluster, "")), limit("shared"));
    let subjects = subjects();
    // The first call learns the map.
    assert_eq!(charge(&store, &limit, &subjects[..1]), [UNITS - 1]);
    let (others, before) = (&subjects[1..], script_calls(cluster));
    assert_eq!(charge(&store, &limit, others), vec![UNITS - 1; others.len()]);
    let strangers = count(cluster, "commandstats", "cmdstat_get:", "rejected_calls=");
    assert!(strangers >= 3, "a node was believed without being asked");
    for left in 2..5 {
        assert_eq!(charge(&store, &limit, others), vec![UNITS - left; others.len()]);
    }
    let calls = script_calls(cluster) - before;
    println!("{calls} calls for {} decisions", 4 * others.len());
    // At most 64 keys share one, and at first the script is not known.
    assert!(calls < 40, "{calls} calls");
    let again = count(cluster, "commandstats", "cmdstat_get:", "rejected_calls=");
    assert_eq!(again, strangers, "a node was asked again");
    for subject in others {
        let key = limit.key(subject).to_text();
        let node = &cluster.nodes()[cluster.owner_of_key(&key).unwrap()];
        let held = node.client().unwrap().call(&["EXISTS", &key]).unwrap();
        assert_eq!(held.integer(), Some(1), "{key}");
    }
}

fn callers_at_the_same_moment_share_calls(cluster: &RedisCluster) {
    let (store, limit) = (store(client(cluster, "")), limit("callers"));
    let subjects = subjects();
    charge(&store, &limit, &subjects);
    let before = script_calls(cluster);
    let charges: Vec<_> = subjects.iter().map(|subject| [limit.charge(subject)]).collect();
    let admissions: Vec<_> = charges.iter().map(|charges| Admission::of(charges)).collect();
    let admissions: Vec<_> = admissions.iter().chain(&admissions).collect();
    // All of them ask before the first is answered.
    on_one_thread(async {
        let store = RedisStore::over(client(cluster, ""));
        store.admit(admissions[0], At::StoreClock).await.unwrap();
        let all = join_all(admissions[1..].iter().map(|one| store.admit(one, At::StoreClock)));
        assert!(all.await.iter().all(Result::is_ok));
    });
    let calls = script_calls(cluster) - before;
    println!("{calls} calls for {} callers", admissions.len());
    assert!(calls < admissions.len() as u64 / 4, "{calls} calls");
    assert_eq!(charge(&store, &limit, &subjects), vec![UNITS - 4; subjects.len()]);
}

fn every_algorithm_is_exact(cluster: &RedisCluster) {
    const QUOTA: u64 = 20;
    let store = store(client(cluster, ""));
    let subjects: Vec<String> = subjects().into_iter().take(60).collect();
    for (variant, quota) in ModelQuota::every_kind(QUOTA, 86_400_000_000).into_iter().enumerate() {
        let limit = Limit::with_rule(&format!("v{variant}"), quota.rule().unwrap()).unwrap();
        let limit = limit.with_prefix("districts").unwrap();
        let charges: Vec<_> = subjects.iter().map(|subject| [limit.charge(subject)]).collect();
        let batch: Vec<_> = charges.iter().map(|charges| Admission::of(charges)).collect();
        for spent in 0..QUOTA + 3 {
            let outcomes = run(store.admit_many(&batch, At::StoreClock));
            for (admission, outcome) in batch.iter().zip(outcomes) {
                let plan = decisions_of(admission, &outcome.unwrap()).unwrap();
                assert_eq!(plan.admitted, spent < QUOTA, "{quota:?}, {spent} spent");
            }
        }
    }
    let calls = script_calls(cluster);
    println!("{calls} calls in all");
    assert!(calls < 10 * (QUOTA + 3) * 6, "{calls} calls");
}

fn those_who_want_it_share_only_within_a_slot(cluster: &RedisCluster) {
    let (store, limit) = (store(client(cluster, "&share=slot")), limit("slots"));
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

/// Two slots move to the same node at once: the one has given its key away, the other has not. Whoever asks
/// the node for the first key, as it was told to, must not charge the second one there.
fn keys_that_move_are_charged_where_they_are(cluster: &RedisCluster) {
    let (store, limit) = (store(client(cluster, "")), limit("moving"));
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

/// Says of a node that serves everything that half of it is another's.
struct Mistaken(Client, Arc<Districts>);

impl Transport for Mistaken {
    fn sharing(&self) -> Sharing {
        Sharing::SameSlot
    }

    fn districts(&self) -> Option<Arc<Districts>> {
        Some(self.1.clone())
    }

    async fn send(&self, call: &Call) -> Result<Reply> {
        self.0.send(call).await
    }

    async fn send_all(&self, calls: &[Call]) -> Vec<Result<Reply>> {
        self.0.send_all(calls).await
    }

    fn spawner(&self) -> Option<Spawner> {
        self.0.spawner()
    }
}

#[test]
fn a_node_that_does_not_refuse_strangers_gets_calls_for_one_slot_only() {
    let cluster = RedisCluster::start(1).unwrap();
    let halves = Districts::new(vec![(0, 0), (8_192, 1)], [(); 2].map(|()| Arc::default()));
    let store = store(Mistaken(client(&cluster, ""), Arc::new(halves)));
    let (limit, subjects) = (limit("mistaken"), subjects());
    let doubts = || count(&cluster, "errorstats", "errorstat_FOREIGN:", "count=");
    assert_eq!(charge(&store, &limit, &subjects), vec![UNITS - 1; SUBJECTS]);
    let first = doubts();
    assert!((2..10).contains(&first), "{first} calls were refused");
    assert_eq!(charge(&store, &limit, &subjects), vec![UNITS - 2; SUBJECTS]);
    assert_eq!(doubts(), first, "it was tried again");
}

/// What a node of a cluster holds that nobody would look for there.
#[test]
fn a_lie_about_where_keys_are_charges_nobody_twice() {
    let cluster = RedisCluster::start(2).unwrap();
    // Both nodes serve what the other is said to.
    let wrong = Districts::new(vec![(0, 1), (8_192, 0)], [(); 2].map(|()| Arc::default()));
    let store = store(Mistaken(client(&cluster, ""), Arc::new(wrong)));
    let (limit, subjects) = (limit("lie"), subjects());
    for spent in 1..4 {
        assert_eq!(charge(&store, &limit, &subjects), vec![UNITS - spent; SUBJECTS]);
    }
    let keys = cluster
        .nodes()
        .iter()
        .map(|node| node.client().unwrap().call(&["DBSIZE"]).unwrap().integer().unwrap());
    assert_eq!(usize::try_from(keys.sum::<i64>()), Ok(SUBJECTS));
}

macro_rules! on_each {
    ($($test:ident)*) => {
        $(mod $test {
            use tollgate_testkit::servers::RedisCluster;

            #[test]
            fn on_redis_7() {
                super::$test(&RedisCluster::start(3).unwrap());
            }

            #[test]
            fn on_redis_8() {
                super::$test(&RedisCluster::builder().redis_8().start(3).unwrap());
            }

            #[test]
            fn on_valkey() {
                super::$test(&RedisCluster::builder().valkey().start(3).unwrap());
            }
        })*
    };
}

on_each! {
    keys_of_one_node_share_calls
    callers_at_the_same_moment_share_calls
    every_algorithm_is_exact
    those_who_want_it_share_only_within_a_slot
    keys_that_move_are_charged_where_they_are
}
