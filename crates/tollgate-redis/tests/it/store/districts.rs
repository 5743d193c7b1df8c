//! Keys of several slots that one node serves share calls: exactly, wherever the keys are meanwhile, and only
//! on a node that refuses keys of other nodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::{CallContext, Store, admit_many};
use tollgate_core::{Admission, Code, Limit, Quota, Result, algorithm as a};
use tollgate_redis::RedisStore;
use tollgate_redis::client::Client;
use tollgate_redis::transport::{Call, Districts, Reply, Sharing, Spawner, Transport, Trust};
use tollgate_test_servers::{Mode, RedisCluster};
use tollgate_testkit::derive::decisions_of;
use tollgate_testkit::model::ModelQuota;
use tollgate_testkit::runtime::join_all;

use super::{RUNTIME, on_one_thread, run};

const UNITS: u64 = 1_000;
const SUBJECTS: usize = 300;
/// So long that nothing comes back while a test runs.
const DAYS: Duration = Duration::from_secs(30 * 86_400);

fn limit(policy: &str) -> Limit {
    let gcra = a::Gcra::new(Quota::new(UNITS, DAYS)).unwrap();
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
        store.admit(admissions[0], CallContext::store_clock()).await.unwrap();
        let all = join_all(
            admissions[1..].iter().map(|one| store.admit(one, CallContext::store_clock())),
        );
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
    for (variant, quota) in ModelQuota::every_kind(QUOTA, 1 << 46).into_iter().enumerate() {
        let limit = Limit::with_rule(&format!("v{variant}"), quota.rule().unwrap()).unwrap();
        let limit = limit.with_prefix("districts").unwrap();
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

/// Has a map of its own, which is wrong.
struct Mistaken {
    client: Client,
    districts: Arc<Districts>,
    trusts: Vec<Arc<Trust>>,
}

impl Mistaken {
    fn store(cluster: &RedisCluster, runs: Vec<(u16, u16)>) -> RedisStore<Self> {
        let trusts: Vec<Arc<Trust>> = vec![Arc::default(), Arc::default()];
        let districts = Arc::new(Districts::new(runs, trusts.clone()));
        store(Self { client: client(cluster, ""), districts, trusts })
    }

    fn judge(&self, call: &Call, reply: &Result<Reply>) {
        let district = call.slot().and_then(|slot| self.districts.of(slot));
        if let (Some(district), Ok(reply)) = (district, reply) {
            self.trusts[usize::from(district)].judge(call, reply);
        }
    }
}

impl Transport for Mistaken {
    fn sharing(&self) -> Sharing {
        Sharing::SameSlot
    }

    fn districts(&self) -> Option<Arc<Districts>> {
        Some(self.districts.clone())
    }

    async fn send(&self, call: &Call) -> Result<Reply> {
        let reply = self.client.send(call).await;
        self.judge(call, &reply);
        reply
    }

    async fn send_all(&self, calls: &[Call]) -> Vec<Result<Reply>> {
        let replies = self.client.send_all(calls).await;
        calls.iter().zip(&replies).for_each(|(call, reply)| self.judge(call, reply));
        replies
    }

    fn spawner(&self) -> Option<Spawner> {
        self.client.spawner()
    }
}

/// It serves everything, and half of it is said to be another's.
#[test]
fn a_node_that_does_not_refuse_strangers_gets_calls_for_one_slot_only() {
    let cluster = RedisCluster::start(1).unwrap();
    let store = Mistaken::store(&cluster, vec![(0, 0), (8_192, 1)]);
    let (limit, subjects) = (limit("mistaken"), subjects());
    let doubts = || count(&cluster, "errorstats", "errorstat_FOREIGN:", "count=");
    assert_eq!(charge(&store, &limit, &subjects), vec![UNITS - 1; SUBJECTS]);
    let first = doubts();
    assert!((2..10).contains(&first), "{first} calls were refused");
    assert_eq!(charge(&store, &limit, &subjects), vec![UNITS - 2; SUBJECTS]);
    assert_eq!(doubts(), first, "it was tried again");
}

/// Each of two nodes is said to serve half of what the other does.
#[test]
fn a_wrong_map_charges_every_key_once_and_where_it_belongs() {
    let cluster = RedisCluster::start(2).unwrap();
    let store = Mistaken::store(&cluster, vec![(0, 0), (4_096, 1), (12_288, 0)]);
    let (limit, subjects) = (limit("wrong"), subjects());
    for spent in 1..4 {
        assert_eq!(charge(&store, &limit, &subjects), vec![UNITS - spent; SUBJECTS]);
    }
    let keys = cluster
        .nodes()
        .iter()
        .map(|node| node.client().unwrap().call(&["DBSIZE"]).unwrap().integer().unwrap());
    assert_eq!(usize::try_from(keys.sum::<i64>()), Ok(SUBJECTS));
}

/// A key has moved to a node that hangs; the others have not. Those who ask for it go alone, as the first do,
/// or with others, in calls of their own (another algorithm) or in shared ones.
#[test]
fn a_node_that_hangs_holds_up_nobody_who_asks_another() {
    const ENOUGH: Duration = Duration::from_secs(30);
    let cluster = RedisCluster::start(2).unwrap();
    let proxies = cluster.behind_proxies().unwrap();
    let timeouts = "connect_timeout_ms=10000&reply_timeout_ms=60000";
    let url = format!("redis-cluster://{}?{timeouts}", proxies[0].addr());
    let limit = limit("hanging");
    let window = a::FixedWindow::new(Quota::new(UNITS, DAYS), a::Anchor::FirstHit).unwrap();
    let another = Limit::new("another", window).unwrap().with_prefix("districts").unwrap();
    let is_first =
        |subject: &String| cluster.owner_of_key(&limit.key(subject).to_text()).unwrap() == 0;
    let own: Vec<String> = subjects().into_iter().filter(is_first).take(65).collect();
    let (gone, others) = own.split_first().unwrap();
    on_one_thread(async {
        let store = RedisStore::over(Client::open(&url).unwrap());
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
        assert!(held_up.iter().all(|one| !one.is_finished()), "somebody answered");
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

/// A right that is missing for one key is nobody else's concern.
#[test]
fn a_key_without_rights_fails_alone() {
    let rights = "~districts:* %R~readable:* +@all";
    let cluster =
        RedisCluster::builder().user(&format!("limiter on >pa55 {rights}")).start(2).unwrap();
    let addr = cluster.nodes()[0].addr();
    let timeouts = "connect_timeout_ms=10000&reply_timeout_ms=60000";
    let url = format!("redis-cluster://limiter:pa55@{addr}?{timeouts}");
    let store = store(Client::open(&url).unwrap());
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
            use tollgate_test_servers::RedisCluster;

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
