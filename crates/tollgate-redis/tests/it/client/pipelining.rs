//! Many callers share one connection, and each gets its own reply.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_redis::transport::{Reply, Transport};
use tollgate_test_servers::{FaultProxy, Redis};
use tollgate_testkit::rng::Rng;

use super::{SOON, count, open, send_all, stored, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_callers_get_their_own_replies() {
    let redis = Redis::start().unwrap();
    let client = open(&redis.url());
    let mut callers = JoinSet::new();
    for caller in 0..10_000 {
        let client = client.clone();
        callers.spawn(async move {
            let argument = caller.to_string();
            assert_eq!(client.send(&count("order", &argument)).await.unwrap(), text(&argument));
        });
    }
    while let Some(done) = callers.join_next().await {
        done.unwrap();
    }
    assert_eq!(stored(&redis, "order"), 10_000);
    assert_eq!(clients(&redis), 2, "more than one connection was made");
}

/// On one thread, so that no reply can come between a first look at a call and its end.
#[tokio::test]
async fn cancelled_callers_do_not_disturb_the_order() {
    let seed = 0xd20_99ed;
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let redis = Redis::start().unwrap();
    let client = open(&redis.url());
    for round in 0..2_000 {
        let gone = count("gone", "gone");
        if rng.one_in(2) {
            // Polled once, so that it is queued, then dropped.
            let mut call = pin!(client.send(&gone));
            let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
        } else {
            let mut calls = pin!(client.send_all(std::slice::from_ref(&gone), |_, _| {}));
            let polled = calls.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
        }
        let argument = round.to_string();
        assert_eq!(client.send(&count("stays", &argument)).await.unwrap(), text(&argument));
    }
    assert_eq!((stored(&redis, "gone"), stored(&redis, "stays")), (2_000, 2_000));
}

/// Callers come and are cancelled in all orders, and each that stays gets its own reply.
#[tokio::test]
async fn callers_that_are_cancelled_take_no_reply_of_others() {
    let seed = 0xa_10_7e;
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let redis = Redis::start().unwrap();
    let client = open(&redis.url());
    let mut sent = 0;
    for round in 0..300 {
        for call in 0..rng.below(40) {
            let argument = format!("{round}-{call}");
            assert_eq!(client.send(&count("all", &argument)).await.unwrap(), text(&argument));
            sent += 1;
        }
        let calls: Vec<_> = (0..3).map(|call| count("all", &format!("{round}+{call}"))).collect();
        let mut under_way: Vec<_> = calls.iter().map(|call| Box::pin(client.send(call))).collect();
        for call in &mut under_way {
            let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
            sent += 1;
        }
        // Some are cancelled before the others are polled.
        for (place, call) in under_way.into_iter().enumerate() {
            if rng.one_in(2) {
                let reply = timeout(SOON, call).await.expect("a call hangs").unwrap();
                assert_eq!(reply, text(&format!("{round}+{place}")));
            }
        }
    }
    // Answered after all that went before.
    assert_eq!(client.send(&count("last", "x")).await.unwrap(), text("x"));
    assert_eq!(stored(&redis, "all"), sent);
}

#[tokio::test]
async fn several_calls_share_a_round_trip_and_keep_their_order() {
    let redis = Redis::start().unwrap();
    let proxy = FaultProxy::to(redis.addr()).unwrap();
    let client = open(&format!("redis://{}", proxy.addr()));
    assert!(send_all(&client, &[]).await.is_empty());
    let calls: Vec<_> = (0..1_000).map(|call| count("many", &call.to_string())).collect();
    let replies = send_all(&client, &calls).await;
    for (call, reply) in replies.into_iter().enumerate() {
        assert_eq!(reply.unwrap(), text(&call.to_string()));
    }
    assert_eq!(proxy.traffic().connections, 1);
}

#[tokio::test]
async fn an_error_reply_is_a_reply_and_affects_no_other() {
    let redis = Redis::start().unwrap();
    let client = open(&redis.url());
    redis.client().unwrap().call(&["SET", "word", "text"]).unwrap();
    let calls = [count("a", "1"), count("word", "2"), count("a", "3")];
    let replies = send_all(&client, &calls).await;
    assert!(matches!(&replies[1], Ok(Reply::Error(text)) if text.contains("not an integer")));
    assert_eq!(replies[0].as_ref().unwrap(), &text("1"));
    assert_eq!(replies[2].as_ref().unwrap(), &text("3"));
}

#[test]
fn a_client_outlives_its_runtime() {
    let redis = Redis::start().unwrap();
    let client = open(&redis.url());
    for _ in 0..3 {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let reply = runtime.block_on(client.send(&count("runtimes", "x"))).unwrap();
        assert_eq!(reply, text("x"));
    }
    assert_eq!(stored(&redis, "runtimes"), 3);
    let error = tollgate_testkit::runtime::block_on(client.send(&count("none", "x"))).unwrap_err();
    assert!(error.is_not_sent() && error.to_string().contains("tokio runtime"), "{error}");
}

/// Connections that the server has, the one that asks included.
fn clients(redis: &Redis) -> usize {
    let list = redis.client().unwrap().call(&["CLIENT", "LIST"]).unwrap();
    list.text().unwrap().lines().count()
}
