//! What networks do to a store, through a proxy that does it on command.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::{Code, Limiter, OutageMode};
use tollgate_dynamodb::DynamoDb;
use tollgate_test_servers::shared::dynamodb;
use tollgate_test_servers::{FaultProxy, Mode, Port};
use tollgate_testkit::runtime::join_all;

use crate::support::{
    TEST_TIMEOUT, block_on, config, fresh, limit, open, spent, table, take, take_once,
};

/// A proxy in front of the server, and the address of a table behind it.
fn proxied(table: &str) -> (Arc<FaultProxy>, String) {
    let server = dynamodb();
    let proxy = FaultProxy::to(server.addr()).unwrap();
    let url = server.url(table).replace(&server.port().to_string(), &proxy.port().to_string());
    (Arc::new(proxy), url)
}

/// Waits, off the runtime, until the server has answered and the answer was lost. What was lost
/// before is read at once: a reply that is lost before the first poll counts.
fn until_a_reply_is_lost(proxy: &Arc<FaultProxy>) -> impl Future<Output = ()> + use<> {
    let proxy = Arc::clone(proxy);
    let before = proxy.traffic().lost_to_client_bytes;
    let lost =
        move || proxy.wait_until(TEST_TIMEOUT, |traffic| traffic.lost_to_client_bytes > before);
    async { tokio::task::spawn_blocking(lost).await.unwrap().unwrap() }
}

#[test]
fn a_slow_network_changes_no_decision() {
    let (proxy, url) = proxied(&table());
    block_on(async {
        let store = fresh(&url).await;
        let few = limit(20);
        assert!(take(&store, few.charge("a")).await.unwrap());
        proxy.set(Mode::Latency(Duration::from_millis(60))).unwrap();
        let checks = (0..50).map(|_| take(&store, few.charge("a")));
        let passed = join_all(checks).await.into_iter().filter(|passed| *passed.as_ref().unwrap());
        assert_eq!(passed.count(), 19);
        proxy.set(Mode::Pass).unwrap();
        assert_eq!(spent(&store, &few, "a").await, 20);
    });
}

/// Connections are reset while charges are under way. A caller without an answer sends its id
/// again.
#[test]
fn resets_lose_nothing_and_charge_nothing_twice() {
    const CALLERS: usize = 8;
    const IDS: usize = 20;
    let (proxy, url) = proxied(&table());
    block_on(async {
        let store = fresh(&url).await;
        let many = limit(1 << 20);
        let (store, many) = (&store, &many);
        let (progress, mut seen) = tokio::sync::watch::channel(0_usize);
        let progress = &progress;
        let callers = (0..CALLERS).map(|caller| async move {
            for id in 0..IDS {
                let id = format!("{caller}-{id}");
                let key = format!("key {}", caller % 3);
                loop {
                    match take_once(store, many.charge(&key), &id).await {
                        Ok(is_allowed) => break assert!(is_allowed),
                        Err(error) => assert!(error.is_outage(), "{error}"),
                    }
                }
                progress.send_modify(|count| *count += 1);
            }
        });
        let resetter = async {
            for part in 1..CALLERS * IDS / 10 {
                seen.wait_for(|count| *count >= part * 10).await.unwrap();
                let proxy = Arc::clone(&proxy);
                tokio::task::spawn_blocking(move || proxy.reset().unwrap()).await.unwrap();
            }
        };
        tokio::join!(join_all(callers), resetter);
        let mut total = 0;
        for key in 0..3 {
            total += spent(store, many, &format!("key {key}")).await;
        }
        assert_eq!(total, u64::try_from(CALLERS * IDS).unwrap());
    });
}

/// The write is applied and its caller is cancelled without an answer: the id is charged once.
#[test]
fn a_lost_reply_is_not_charged_again_under_its_id() {
    let table = table();
    let (proxy, url) = proxied(&table);
    block_on(async {
        let (store, direct) = (fresh(&url).await, open(&dynamodb().url(&table)));
        let many = limit(1_000);
        for round in 1..=3 {
            // Twice, so that the key is remembered and the next thing that is sent is the write.
            assert!(take(&store, many.charge("a")).await.unwrap());
            assert!(take(&store, many.charge("a")).await.unwrap());
            let id = format!("lost {round}");
            proxy.set(Mode::DropReplies).unwrap();
            tokio::select! {
                answer = take_once(&store, many.charge("a"), &id) => panic!("{answer:?}"),
                () = until_a_reply_is_lost(&proxy) => {}
            }
            assert_eq!(spent(&direct, &many, "a").await, round * 3, "it was not applied");
            proxy.set(Mode::Pass).unwrap();
            proxy.reset().unwrap();
            assert!(take_once(&store, many.charge("a"), &id).await.unwrap());
            assert_eq!(spent(&direct, &many, "a").await, round * 3, "it was charged twice");
        }
    });
}

/// The write is applied and the connection breaks before the answer: the caller gets the right one.
#[test]
fn a_write_whose_reply_was_lost_is_recognised() {
    let table = table();
    let (proxy, url) = proxied(&table);
    block_on(async {
        let (store, direct) = (fresh(&url).await, open(&dynamodb().url(&table)));
        let many = limit(1_000);
        assert!(take(&store, many.charge("a")).await.unwrap());
        proxy.set(Mode::DropReplies).unwrap();
        let lost = until_a_reply_is_lost(&proxy);
        let broken = async {
            lost.await;
            assert_eq!(spent(&direct, &many, "a").await, 2, "it was not applied");
            proxy.set(Mode::Pass).unwrap();
            proxy.reset().unwrap();
        };
        let (is_allowed, ()) = tokio::join!(take(&store, many.charge("a")), broken);
        assert!(is_allowed.unwrap());
        assert_eq!(spent(&direct, &many, "a").await, 2, "it was charged twice");
    });
}

/// The network swallows everything: the limiter answers within its deadline, and recovers.
#[test]
fn a_black_hole_is_answered_for_within_the_deadline() {
    let (proxy, url) = proxied(&table());
    block_on(async {
        drop(fresh(&url).await);
        let quick = config(&url).operation_timeout(Duration::from_secs(1));
        let limiter = Limiter::new(DynamoDb::open(quick).unwrap());
        let closed = limit(1_000).on_outage(OutageMode::Closed);
        proxy.set(Mode::Blackhole).unwrap();
        let start = Instant::now();
        let decision = limiter.check(closed.charge("a")).await.unwrap();
        let took = start.elapsed();
        println!("a black hole is answered for after {took:?}");
        assert_eq!(decision.degraded, Some(OutageMode::Closed));
        assert!(took >= Duration::from_millis(100), "answered after {took:?}: no call waited");
        assert!(took < Duration::from_secs(5), "answered after {took:?}");
        proxy.set(Mode::Pass).unwrap();
        proxy.reset().unwrap();
        let recovered = async {
            while limiter.check(closed.charge("a")).await.unwrap().degraded.is_some() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, recovered).await.expect("it recovers");
    });
}

/// The store itself ends a call after its timeout, also without a limiter.
#[test]
fn the_store_has_a_deadline_of_its_own() {
    let (proxy, url) = proxied(&table());
    block_on(async {
        drop(fresh(&url).await);
        let quick = config(&url).operation_timeout(Duration::from_millis(300));
        let store = DynamoDb::open(quick).unwrap();
        proxy.set(Mode::Blackhole).unwrap();
        let error = take(&store, limit(1).charge("a")).await.unwrap_err();
        assert_eq!(error.code(), Code::Timeout, "{error}");
    });
}

#[test]
fn a_server_that_is_not_there_is_an_outage_and_nothing_was_sent() {
    block_on(async {
        let closed = Port::reserve().unwrap();
        let url = format!("dynamodb://limits?region=us-east-1&endpoint=http://{}", closed.addr());
        let store = open(&url);
        let error = take(&store, limit(1).charge("a")).await.unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
        assert!(error.is_not_sent(), "{error}");
    });
}
