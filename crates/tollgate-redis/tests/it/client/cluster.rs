//! Clusters: every call reaches its node, whatever moves, and runs once.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tollgate_core::Code;
use tollgate_redis::client::Client;
use tollgate_redis::script::Script;
use tollgate_redis::slot::slot_of;
use tollgate_redis::transport::{Args, Call, Reply, Sharing, Transport};
use tollgate_test_servers::wait::until_ok;
use tollgate_test_servers::{Error, RedisBuilder, RedisCluster, shared};

use super::{SOON, count, open, send_all, soon, text};

/// Knows one node only, so that it has to find the others.
fn client_of(cluster: &RedisCluster) -> Client {
    let addr = cluster.nodes()[0].addr();
    open(&format!("redis-cluster://{addr}?connect_timeout_ms=2000&reply_timeout_ms=5000"))
}

/// What the owner of a key says about its number. The others redirect.
fn counted(cluster: &RedisCluster, key: &str) -> i64 {
    let asked = || {
        let replies = cluster.nodes().iter().map(|node| node.client()?.call(&["GET", key])?.ok());
        let replies: Vec<_> = replies.collect();
        let number = replies.iter().flatten().find_map(|reply| reply.text()?.parse().ok());
        number.ok_or_else(|| Error::new(format!("no node has {key}: {replies:?}")))
    };
    until_ok(SOON, asked).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_find_the_nodes_of_their_slots() {
    let cluster = shared::redis_cluster();
    let client = client_of(cluster);
    assert_eq!(client.sharing(), Sharing::SameSlot);
    let keys: Vec<String> = (0..300).map(|key| format!("spread:{{{key}}}")).collect();
    let calls: Vec<Call> = keys.iter().map(|key| count(key, key)).collect();
    let replies = send_all(&client, &calls).await;
    for ((key, call), reply) in keys.iter().zip(&calls).zip(replies) {
        assert_eq!(slot_of(key.as_bytes()), cluster.slot_of_key(key).unwrap());
        assert_eq!(reply.unwrap(), text(key));
        assert_eq!(soon(&client, call).await.unwrap(), text(key));
        assert_eq!(counted(cluster, key), 2);
    }
}

async fn a_key_that_moves_is_followed_at_every_stage(new: RedisBuilder) {
    let cluster = new.start_cluster(2).unwrap();
    let client = client_of(&cluster);
    let key = "moves:{a}";
    let slot = cluster.slot_of_key(key).unwrap();
    let to = 1 - cluster.owner(slot).unwrap();
    let counts = async |stage: &str| {
        assert_eq!(soon(&client, &count(key, stage)).await.unwrap(), text(stage));
        let replies = send_all(&client, &[count(key, "1"), count(key, "2")]).await;
        let replies: Vec<Reply> = replies.into_iter().map(Result::unwrap).collect();
        assert_eq!(replies, [text("1"), text("2")], "{stage}");
    };
    counts("before").await;
    let mut moving = cluster.begin_move(slot, to).unwrap();
    counts("begun").await;
    while moving.move_keys(100).unwrap() > 0 {}
    counts("asked").await;
    moving.finish().unwrap();
    counts("moved").await;
    assert_eq!(counted(&cluster, key), 12);
}

async fn two_keys_of_a_slot_that_moves_are_tried_again(new: RedisBuilder) {
    let cluster = new.start_cluster(2).unwrap();
    let client = client_of(&cluster);
    let keys = ["one:{b}", "two:{b}"];
    let script =
        Script::new("redis.call('INCR', KEYS[1]) return redis.call('INCR', KEYS[2])".into());
    let both = Call::new(script, keys.map(str::to_owned).to_vec(), Args::default()).with_text();
    assert_eq!(soon(&client, &both).await.unwrap(), Reply::Integer(1));
    let slot = cluster.slot_of_key(keys[0]).unwrap();
    let mut moving = cluster.begin_move(slot, 1 - cluster.owner(slot).unwrap()).unwrap();
    assert_eq!(moving.move_keys(1).unwrap(), 1);
    // One is here and one is there: not run.
    let error = soon(&client, &both).await.unwrap().ok().unwrap_err();
    assert!(error.is_not_sent() && error.to_string().contains("TRYAGAIN"), "{error}");
    assert_eq!(error.code(), Code::ConflictExhausted, "the cluster answers");
    let caller = client.clone();
    let call = both.clone();
    let waiting = tokio::spawn(async move {
        loop {
            match soon(&caller, &call).await.unwrap().ok() {
                Ok(reply) => return reply,
                Err(error) => assert!(error.is_not_sent(), "{error}"),
            }
        }
    });
    while moving.move_keys(100).unwrap() > 0 {}
    moving.finish().unwrap();
    assert_eq!(waiting.await.unwrap(), Reply::Integer(2));
    assert_eq!(counted(&cluster, keys[0]), 2);
}

async fn slots_that_move_under_load_lose_and_double_nothing(new: RedisBuilder) {
    const TAGS: usize = 8;
    let cluster = Arc::new(new.start_cluster(3).unwrap());
    let client = client_of(&cluster);
    let key = |tag: usize| format!("load:{{{tag}}}");
    let is_over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..TAGS)
        .map(|tag| {
            let (client, is_over) = (client.clone(), Arc::clone(&is_over));
            tokio::spawn(async move {
                let (mut ran, mut not_sent) = (0, 0);
                let call = count(&key(tag), "x");
                let calls = vec![call.clone(); 4];
                while !is_over.load(Ordering::Relaxed) {
                    let mut replies = send_all(&client, &calls).await;
                    replies.push(client.send(&call).await);
                    for reply in replies {
                        match reply.and_then(Reply::ok) {
                            Ok(_) => ran += 1,
                            Err(error) => {
                                assert!(error.is_not_sent(), "{error}");
                                not_sent += 1;
                            }
                        }
                    }
                }
                (ran, not_sent)
            })
        })
        .collect();
    let moving = Arc::clone(&cluster);
    let slots: Vec<u16> = (0..TAGS).map(|tag| slot_of(key(tag).as_bytes())).collect();
    let moved = tokio::task::spawn_blocking(move || {
        // Each once: a slot that moves again at once may lose its keys, by the server's own doing.
        for slot in slots {
            let to = (moving.owner(slot).unwrap() + 1) % 3;
            moving.move_slots([slot], to).unwrap();
        }
    });
    moved.await.unwrap();
    is_over.store(true, Ordering::Relaxed);
    let mut total = 0;
    for (tag, caller) in callers.into_iter().enumerate() {
        let (ran, not_sent) = caller.await.unwrap();
        assert_eq!(counted(&cluster, &key(tag)), ran, "{not_sent} not_sent");
        total += ran;
    }
    println!("{total} calls while {TAGS} slots moved");
}

async fn a_cluster_that_is_down_fails_and_recovers(new: RedisBuilder) {
    let cluster = Arc::new(new.start_cluster(3).unwrap());
    let client = client_of(&cluster);
    let key = (0..100).map(|key| format!("down:{{{key}}}"));
    let key = key.into_iter().find(|key| cluster.owner_of_key(key).unwrap() == 1).unwrap();
    assert_eq!(soon(&client, &count(&key, "x")).await.unwrap(), text("x"));
    cluster.nodes()[2].kill().unwrap();
    let watched = Arc::clone(&cluster);
    tokio::task::spawn_blocking(move || watched.wait_until_broken().unwrap()).await.unwrap();
    // Its own node runs, and refuses.
    let error = soon(&client, &count(&key, "x")).await.and_then(Reply::ok).unwrap_err();
    assert!(error.is_outage() && error.is_not_sent(), "{error}");
    let watched = Arc::clone(&cluster);
    let whole = tokio::task::spawn_blocking(move || {
        watched.nodes()[2].restart().unwrap();
        watched.wait_until_whole().unwrap();
    });
    whole.await.unwrap();
    let deadline = Instant::now() + SOON;
    while let Err(error) = soon(&client, &count(&key, "x")).await.and_then(Reply::ok) {
        assert!(error.is_not_sent() && Instant::now() < deadline, "{error}");
        tokio::task::yield_now().await;
    }
    assert_eq!(counted(&cluster, &key), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_never_was_is_unsent_and_found_later() {
    let cluster = RedisCluster::start(1).unwrap();
    let client = client_of(&cluster);
    cluster.nodes()[0].kill().unwrap();
    for _ in 0..3 {
        let error = soon(&client, &count("a", "x")).await.unwrap_err();
        assert!(error.is_outage() && error.is_not_sent(), "{error}");
    }
    cluster.nodes()[0].restart().unwrap();
    let deadline = Instant::now() + SOON;
    while let Err(error) = soon(&client, &count("a", "x")).await.and_then(Reply::ok) {
        assert!(error.is_not_sent() && Instant::now() < deadline, "{error}");
        tokio::task::yield_now().await;
    }
    client.close().await;
    assert!(soon(&client, &count("a", "x")).await.unwrap_err().is_not_sent());
}

/// Each caller has less time than it takes to see that the first node is silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_node_does_not_hide_the_others_from_callers_in_a_hurry() {
    let cluster = RedisCluster::start(1).unwrap();
    // It takes connections, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hosts = format!("{},{}", silent.local_addr().unwrap(), cluster.nodes()[0].addr());
    let client = open(&format!("redis-cluster://{hosts}?connect_timeout_ms=1000"));
    let (call, deadline) = (count("hurry", "x"), Instant::now() + SOON);
    loop {
        let reply = timeout(Duration::from_millis(500), client.send(&call)).await;
        if matches!(&reply, Ok(Ok(reply)) if *reply == text("x")) {
            return;
        }
        assert!(Instant::now() < deadline, "the others are not found: {reply:?}");
    }
}

macro_rules! on {
    ($engine:ident, $new:expr, $($test:ident)*) => {
        mod $engine {
            use tollgate_test_servers::RedisBuilder;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test($new).await;
            })*
        }
    };
}

macro_rules! on_each {
    ($($test:ident)*) => {
        on! { redis_7, RedisBuilder::default(), $($test)* }
        on! { redis_8, RedisBuilder::default().redis_8(), $($test)* }
    };
}

on_each! {
    a_key_that_moves_is_followed_at_every_stage
    two_keys_of_a_slot_that_moves_are_tried_again
    slots_that_move_under_load_lose_and_double_nothing
    a_cluster_that_is_down_fails_and_recovers
}
