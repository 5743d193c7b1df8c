//! A Redis cluster: formed, resharded under load, broken and repaired.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollgate_test_servers::resp::{Client, Reply};
use tollgate_test_servers::wait::until_ok;
use tollgate_test_servers::{Error, Mode, Redis, RedisCluster, shared};

use super::{bulk, call, status};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn three_masters_share_all_slots() {
    let cluster = shared::redis_cluster();
    assert_eq!(cluster.urls().len(), 3);
    let key = "{three_masters}:key";
    let owner = cluster.owner_of_key(key).unwrap();
    for (index, node) in cluster.nodes().iter().enumerate() {
        let reply = call(&mut node.client().unwrap(), &format!("SET {key} 1"));
        if index == owner {
            assert_eq!(reply, status("OK"));
        } else {
            assert!(reply.text().unwrap().starts_with("MOVED"), "{reply:?}");
        }
        let across = call(&mut node.client().unwrap(), "MSET a 1 b 2");
        assert!(across.text().unwrap().starts_with("CROSSSLOT"), "{across:?}");
    }
}

#[test]
fn a_cluster_behind_proxies_redirects_clients_to_them() {
    let cluster = RedisCluster::start(3).unwrap();
    let proxies = cluster.behind_proxies().unwrap();
    let owner = cluster.owner_of_key("key").unwrap();
    let other = (owner + 1) % 3;
    let moved = call(&mut Client::connect(proxies[other].addr()).unwrap(), "SET key value");
    let moved = moved.text().unwrap();
    assert!(moved.ends_with(&format!("127.0.0.1:{}", proxies[owner].port())), "{moved}");
    let mut client = Client::connect(proxies[owner].addr()).unwrap();
    assert_eq!(call(&mut client, "SET key value"), status("OK"));
    // The nodes connect to each other without the proxies.
    for proxy in &proxies {
        proxy.set(Mode::Blackhole).unwrap();
    }
    let slot = cluster.slot_of_key("key").unwrap();
    cluster.move_slots([slot], other).unwrap();
    assert_eq!(cluster.owner(slot).unwrap(), other);
}

#[test]
fn a_slot_moves_step_by_step() {
    let cluster = Redis::builder().password("s3cret").start_cluster(3).unwrap();
    let slot = cluster.slot_of_key("{moving}").unwrap();
    let from = cluster.owner(slot).unwrap();
    let to = (from + 1) % 3;
    let mut source = cluster.nodes()[from].client().unwrap();
    let mut target = cluster.nodes()[to].client().unwrap();
    for name in ["a", "b"] {
        assert_eq!(call(&mut source, &format!("SET {{moving}}{name} {name}")), status("OK"));
    }
    let mut moving = cluster.begin_move(slot, to).unwrap();
    assert_eq!(moving.move_keys(1).unwrap(), 1);
    // One key is here and one is there: the source redirects requests for the moved one.
    let replies = ["a", "b"].map(|name| call(&mut source, &format!("GET {{moving}}{name}")));
    let sent_on = |reply: &&Reply| reply.text().is_some_and(|text| text.starts_with("ASK "));
    assert_eq!(replies.iter().filter(sent_on).count(), 1, "{replies:?}");
    assert_eq!(moving.move_keys(10).unwrap(), 1);
    assert_eq!(moving.move_keys(10).unwrap(), 0);
    assert!(call(&mut target, "GET {moving}a").text().unwrap().starts_with("MOVED"));
    assert_eq!(call(&mut target, "ASKING"), status("OK"));
    assert_eq!(call(&mut target, "GET {moving}a"), bulk("a"));
    moving.finish().unwrap();
    assert_eq!(call(&mut target, "GET {moving}b"), bulk("b"));
    assert!(call(&mut source, "GET {moving}a").text().unwrap().starts_with("MOVED"));
    assert_eq!(cluster.owner(slot).unwrap(), to);
    assert!(cluster.begin_move(slot, to).is_err(), "it is there already");
}

/// Sends a command to the owner of the key, following redirects.
fn increment(cluster: &RedisCluster, key: &str) {
    let mut port = cluster.nodes()[0].port();
    let mut asking = false;
    loop {
        let mut client = Client::connect(([127, 0, 0, 1], port).into()).unwrap();
        if asking {
            assert_eq!(call(&mut client, "ASKING"), status("OK"));
        }
        let reply = call(&mut client, &format!("INCR {key}"));
        match reply.text() {
            None => return,
            Some(text) if text.starts_with("TRYAGAIN") => {}
            Some(text) => {
                asking = text.starts_with("ASK ");
                assert!(asking || text.starts_with("MOVED "), "{text}");
                port = text.rsplit(':').next().unwrap().parse().unwrap();
            }
        }
    }
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn slots_move_under_load_and_nothing_is_lost() {
    let cluster = RedisCluster::start(3).unwrap();
    let slot = cluster.slot_of_key("{load}").unwrap();
    let (done, count) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                increment(&cluster, "{load}");
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        // Also when a move fails: else the load would never end, and the error would not be shown.
        let _end_of_load = OnDrop(|| done.store(true, Ordering::SeqCst));
        let slots = || slot.saturating_sub(2)..=slot.saturating_add(2);
        for to in [0, 1, 2, 0] {
            // Without load the test would prove nothing.
            let before = count.load(Ordering::SeqCst);
            until_ok(SOON, || match count.load(Ordering::SeqCst) {
                now if now >= before + 10 => Ok(()),
                now => Err(Error::new(format!("only {now} increments"))),
            })
            .unwrap();
            cluster.move_slots(slots(), to).unwrap();
            assert_eq!(cluster.owner(slot).unwrap(), to);
        }
    });
    let owner = &cluster.nodes()[cluster.owner(slot).unwrap()];
    let counted = call(&mut owner.client().unwrap(), "GET {load}");
    assert_eq!(counted, bulk(&count.load(Ordering::SeqCst).to_string()));
}

#[test]
fn a_cluster_without_a_master_is_broken_until_it_is_back() {
    let cluster = RedisCluster::start(3).unwrap();
    cluster.nodes()[1].kill().unwrap();
    cluster.wait_until_broken().unwrap();
    let reply = call(&mut cluster.nodes()[0].client().unwrap(), "GET anything");
    assert!(reply.text().unwrap().starts_with("CLUSTERDOWN"), "{reply:?}");
    cluster.nodes()[1].restart().unwrap();
    cluster.wait_until_whole().unwrap();
    assert_eq!(cluster.owner(8_000).unwrap(), 1);
}

#[test]
fn an_encrypted_cluster_forms_and_moves_slots() {
    let cluster = Redis::builder().tls().password("s3cret").start_cluster(3).unwrap();
    let slot = cluster.slot_of_key("key").unwrap();
    let from = cluster.owner(slot).unwrap();
    let to = (from + 1) % 3;
    assert_eq!(call(&mut cluster.nodes()[from].client().unwrap(), "SET key value"), status("OK"));
    cluster.move_slots([slot], to).unwrap();
    assert_eq!(call(&mut cluster.nodes()[to].client().unwrap(), "GET key"), bulk("value"));
    assert!(cluster.urls().iter().all(|url| url.starts_with("rediss://")));
    for node in cluster.nodes() {
        assert!(Client::connect(node.addr()).unwrap().call(&["PING"]).is_err(), "plain text");
        let among = call(&mut node.client().unwrap(), "CONFIG GET tls-cluster");
        assert_eq!(among.elements().last(), Some(&bulk("yes")));
    }
}
