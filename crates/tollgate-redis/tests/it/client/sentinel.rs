//! Sentinels: the master is found, and found again after a failover.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_redis::client::Client;
use tollgate_redis::transport::Reply;
use tollgate_test_servers::resp::Client as Look;
use tollgate_test_servers::{RedisBuilder, RedisSentinel};

use super::{SOON, count, open, soon, stored, text};

fn client_of(servers: &RedisSentinel, password: &str) -> Client {
    let hosts: Vec<String> =
        servers.sentinels().iter().map(|sentinel| sentinel.addr().to_string()).collect();
    open(&format!("redis-sentinel://{password}{}/{}", hosts.join(","), servers.name()))
}

/// Counts until it works, then returns how often it may have counted at most.
async fn counts_again(client: &Client, key: &str) -> i64 {
    let deadline = Instant::now() + SOON;
    let mut maybe = 0;
    loop {
        match soon(client, &count(key, "x")).await.and_then(Reply::ok) {
            Ok(_) => return maybe + 1,
            Err(error) => {
                maybe += i64::from(!error.is_not_sent());
                assert!(error.is_outage() && Instant::now() < deadline, "{error}");
            }
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_master_is_replaced_under_load() {
    let servers = Arc::new(RedisBuilder::default().password("s3cret").start_sentinel().unwrap());
    let client = client_of(&servers, ":s3cret@");
    assert_eq!(soon(&client, &count("failover", "x")).await.unwrap(), text("x"));
    let is_over = Arc::new(AtomicBool::new(false));
    let load = {
        let (client, is_over) = (client.clone(), Arc::clone(&is_over));
        tokio::spawn(async move {
            let (mut not_sent, mut unknown) = (0, 0);
            while !is_over.load(Ordering::Relaxed) {
                match soon(&client, &count("load", "x")).await.and_then(Reply::ok) {
                    Ok(_) => {}
                    Err(error) if error.is_not_sent() => not_sent += 1,
                    Err(error) => {
                        assert!(error.is_outage(), "{error}");
                        unknown += 1;
                    }
                }
                tokio::task::yield_now().await;
            }
            (not_sent, unknown)
        })
    };
    let watched = Arc::clone(&servers);
    let port = tokio::task::spawn_blocking(move || watched.fail_over().unwrap().port());
    let port = port.await.unwrap();
    let counted = counts_again(&client, "after").await;
    is_over.store(true, Ordering::Relaxed);
    let (not_sent, unknown) = load.await.unwrap();
    println!("while the master was away: {not_sent} calls not_sent, {unknown} unknown");
    assert!(not_sent > 0 && unknown <= 1, "{not_sent} not_sent, {unknown} unknown");
    let master = servers.nodes().iter().find(|node| node.port() == port).unwrap();
    assert!((1..=counted).contains(&stored(master, "after")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_becomes_a_replica_is_left() {
    let servers = Arc::new(RedisSentinel::start().unwrap());
    let client = client_of(&servers, "");
    assert_eq!(soon(&client, &count("before", "x")).await.unwrap(), text("x"));
    let watched = Arc::clone(&servers);
    let moved = tokio::task::spawn_blocking(move || {
        let old = watched.master().unwrap();
        let mut sentinel = Look::connect(watched.sentinels()[0].addr()).unwrap();
        sentinel.call(&["SENTINEL", "FAILOVER", watched.name()]).unwrap().ok().unwrap();
        watched.wait_for_master_other_than(old).unwrap().port()
    });
    let port = moved.await.unwrap();
    let master = servers.nodes().iter().find(|node| node.port() == port).unwrap();
    // The old one takes writes for 8 seconds more, until the sentinels tell it.
    let start = Instant::now();
    while stored(master, "after") == 0 {
        counts_again(&client, "after").await;
        assert!(start.elapsed() < Duration::from_secs(5), "the old master is still used");
    }
    println!("the new master is used after {:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unavailable_sentinel_is_skipped() {
    let servers = RedisSentinel::start().unwrap();
    servers.sentinels()[0].kill().unwrap();
    let client = client_of(&servers, "");
    assert_eq!(soon(&client, &count("passed", "x")).await.unwrap(), text("x"));
    let unknown = servers.sentinels()[1].addr();
    let client = open(&format!("redis-sentinel://{unknown}/none"));
    let error = soon(&client, &count("passed", "x")).await.unwrap_err();
    assert!(error.is_not_sent() && error.to_string().contains("names no such master"), "{error}");
}
