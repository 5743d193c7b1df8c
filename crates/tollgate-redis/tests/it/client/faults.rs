//! What fails, how it fails, and how soon it works again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::Code;
use tollgate_redis::client::Client;
use tollgate_redis::transport::Transport;
use tollgate_test_servers::resp::Client as Look;
use tollgate_test_servers::{FaultProxy, Mode, Redis};
use tollgate_testkit::rng::Rng;

use super::{SOON, count, open, recovers, send_all, soon, stored, text};

fn proxied(redis: &Redis, options: &str) -> (FaultProxy, Client) {
    let proxy = FaultProxy::to(redis.addr()).unwrap();
    let client = open(&format!("redis://{}{options}", proxy.addr()));
    (proxy, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_was_is_unsent() {
    let redis = Redis::start().unwrap();
    redis.kill().unwrap();
    let client = open(&redis.url());
    for _ in 0..3 {
        let error = soon(&client, &count("none", "x")).await.unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable);
        assert!(error.is_not_sent(), "{error}");
    }
    redis.restart().unwrap();
    recovers(&client, "none", tollgate_core::Error::is_not_sent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_fails_calls_at_once_and_is_found_again() {
    let redis = Redis::start().unwrap();
    let client = open(&redis.url());
    assert_eq!(soon(&client, &count("killed", "x")).await.unwrap(), text("x"));
    redis.kill().unwrap();
    // The first may meet the broken connection; once that is known, all are unsent and immediate.
    let _ = soon(&client, &count("killed", "x")).await;
    let start = Instant::now();
    for _ in 0..1_000 {
        let error = soon(&client, &count("killed", "x")).await.unwrap_err();
        assert!(error.is_not_sent(), "{error}");
    }
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
    redis.restart().unwrap();
    recovers(&client, "killed", tollgate_core::Error::is_not_sent).await;
    assert_eq!(stored(&redis, "killed"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_is_unknown_and_never_sent_again() {
    let redis = Redis::start().unwrap();
    let (proxy, client) = proxied(&redis, "?reply_timeout_ms=300");
    assert_eq!(soon(&client, &count("ambiguous", "x")).await.unwrap(), text("x"));
    proxy.set(Mode::DropReplies).unwrap();
    let start = Instant::now();
    let error = soon(&client, &count("ambiguous", "x")).await.unwrap_err();
    let waited = start.elapsed();
    assert!(!error.is_not_sent() && error.is_outage(), "{error}");
    assert!(waited >= Duration::from_millis(300) && waited < Duration::from_secs(3), "{waited:?}");
    proxy.set(Mode::Pass).unwrap();
    recovers(&client, "ambiguous", tollgate_core::Error::is_not_sent).await;
    assert_eq!(stored(&redis, "ambiguous"), 3, "one call too few or too many ran");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_is_unknown_for_what_was_written_and_the_next_connection_works() {
    let redis = Redis::start().unwrap();
    let (proxy, client) = proxied(&redis, "");
    assert_eq!(soon(&client, &count("reset", "x")).await.unwrap(), text("x"));
    proxy.set(Mode::DropReplies).unwrap();
    let caller = client.clone();
    let call = tokio::spawn(async move { soon(&caller, &count("reset", "x")).await });
    proxy.wait_until(SOON, |traffic| traffic.lost_to_client_bytes > 0).unwrap();
    proxy.set(Mode::Pass).unwrap();
    proxy.reset().unwrap();
    let error = call.await.unwrap().unwrap_err();
    assert!(error.is_outage() && !error.is_not_sent(), "{error}");
    recovers(&client, "reset", tollgate_core::Error::is_not_sent).await;
    assert_eq!(stored(&redis, "reset"), 3, "one call too few or too many ran");
}

/// Sends more than all buffers on the way hold; how many calls are reported as not sent.
async fn overfill(client: &Client, key: &str) -> i64 {
    let large = "x".repeat(1_000_000);
    let calls: Vec<_> = (0..24).map(|_| count(key, &large)).collect();
    let sends = calls.iter().map(|call| {
        let (client, call) = (client.clone(), call.clone());
        tokio::spawn(async move { soon(&client, &call).await.unwrap_err() })
    });
    let sends: Vec<_> = sends.collect();
    let mut not_sent = 0;
    for send in sends {
        not_sent += i64::from(send.await.unwrap().is_not_sent());
    }
    not_sent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_larger_than_the_wire_is_partly_unknown_and_partly_unsent() {
    let redis = Redis::start().unwrap();
    let (proxy, client) = proxied(&redis, "?reply_timeout_ms=500");
    let mut counts = Vec::new();
    // On a busy machine all calls may be gathered into one write, of which a part is sent.
    for key in ["large", "larger", "largest"] {
        assert_eq!(soon(&client, &count(key, "x")).await.unwrap(), text("x"));
        proxy.set(Mode::Hold).unwrap();
        let not_sent = overfill(&client, key).await;
        proxy.set(Mode::Pass).unwrap();
        recovers(&client, key, tollgate_core::Error::is_not_sent).await;
        let ran = stored(&redis, key);
        assert!(ran <= 2 + 24 - not_sent, "{ran} ran, {not_sent} were reported as not_sent");
        counts.push(not_sent);
        if (1..24).contains(&not_sent) {
            return;
        }
    }
    panic!("{counts:?} not_sent of 24");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_is_left_in_time_and_used_again() {
    let redis = Redis::start().unwrap();
    let client = open(&format!("{}?reply_timeout_ms=200&connect_timeout_ms=100", redis.url()));
    assert_eq!(soon(&client, &count("frozen", "x")).await.unwrap(), text("x"));
    redis.stop_answering().unwrap();
    let start = Instant::now();
    let error = soon(&client, &count("frozen", "x")).await.unwrap_err();
    assert!(!error.is_not_sent(), "{error}");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    let error = soon(&client, &count("frozen", "x")).await.unwrap_err();
    assert!(error.is_not_sent(), "{error}");
    redis.go_on().unwrap();
    recovers(&client, "frozen", tollgate_core::Error::is_not_sent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_left_and_found_again_as_a_master() {
    let redis = Redis::start().unwrap();
    let client = open(&redis.url());
    assert_eq!(soon(&client, &count("role", "x")).await.unwrap(), text("x"));
    let mut admin: Look = redis.client().unwrap();
    admin.call(&["REPLICAOF", "127.0.0.1", "1"]).unwrap().ok().unwrap();
    let reply = soon(&client, &count("role", "x")).await;
    // The error of the server, or the loss of a connection that it closed when its role changed.
    let error = reply.and_then(tollgate_redis::transport::Reply::ok).unwrap_err();
    assert!(error.is_outage(), "{error}");
    admin.call(&["REPLICAOF", "NO", "ONE"]).unwrap().ok().unwrap();
    let deadline = Instant::now() + SOON;
    loop {
        match soon(&client, &count("role", "x")).await.and_then(|reply| reply.ok()) {
            Ok(_) => break,
            Err(error) => assert!(error.is_not_sent() && Instant::now() < deadline, "{error}"),
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_does_not_hold_up_the_opening_for_longer_than_its_timeout() {
    let redis = Redis::start().unwrap();
    let (proxy, client) = proxied(&redis, "?connect_timeout_ms=150");
    proxy.set(Mode::Blackhole).unwrap();
    let start = Instant::now();
    let error = soon(&client, &count("hole", "x")).await.unwrap_err();
    assert!(error.is_not_sent(), "{error}");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    proxy.set(Mode::Pass).unwrap();
    recovers(&client, "hole", tollgate_core::Error::is_not_sent).await;
    assert_eq!(stored(&redis, "hole"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_client_refuses_calls_and_closes_its_connections() {
    let redis = Redis::start().unwrap();
    let (proxy, client) = proxied(&redis, "");
    assert_eq!(soon(&client, &count("closed", "x")).await.unwrap(), text("x"));
    client.close().await;
    proxy.wait_until(SOON, |traffic| traffic.open == 0).unwrap();
    let error = soon(&client, &count("closed", "x")).await.unwrap_err();
    assert!(error.is_not_sent(), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_client_closes_its_connections() {
    let redis = Redis::start().unwrap();
    let (proxy, client) = proxied(&redis, "");
    assert_eq!(soon(&client, &count("dropped", "x")).await.unwrap(), text("x"));
    drop(client);
    proxy.wait_until(SOON, |traffic| traffic.open == 0).unwrap();
}

/// Whatever is said about a call is true: what was answered ran, what was unsent did not, and
/// nothing ran twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_cut_at_random_tell_no_lies() {
    const CALLERS: usize = 8;
    let seed = 0xc0_ffee;
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let redis = Redis::start().unwrap();
    let (proxy, client) = proxied(&redis, "");
    let is_over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (client, is_over) = (client.clone(), Arc::clone(&is_over));
            tokio::spawn(async move {
                let (mut ran, mut unknown, mut not_sent) = (0, 0, 0);
                let call = count(&format!("cut:{caller}"), &"x".repeat(caller * 2_000));
                while !is_over.load(Ordering::Relaxed) {
                    let mut replies = send_all(&client, &vec![call.clone(); 1 + caller]).await;
                    replies.push(client.send(&call).await);
                    for reply in replies {
                        match reply {
                            Ok(_) => ran += 1,
                            Err(error) if error.is_not_sent() => not_sent += 1,
                            Err(_) => unknown += 1,
                        }
                    }
                    tokio::task::yield_now().await;
                }
                (ran, unknown, not_sent)
            })
        })
        .collect();
    let looking = tokio::task::spawn_blocking(move || {
        for _ in 0..100 {
            // Cuts come after a random amount of traffic, so anywhere in a batch.
            let until = proxy.traffic().to_client_bytes + rng.below(300_000);
            proxy.wait_until(SOON, |traffic| traffic.to_client_bytes >= until).unwrap();
            proxy.reset().unwrap();
        }
        proxy
    });
    let proxy = looking.await.unwrap();
    is_over.store(true, Ordering::Relaxed);
    let mut sums = (0, 0, 0);
    for (caller, task) in callers.into_iter().enumerate() {
        let (ran, unknown, not_sent) = task.await.unwrap();
        let stored = stored(&redis, &format!("cut:{caller}"));
        assert!(
            (ran..=ran + unknown).contains(&stored),
            "{stored} ran; {ran} answered, {unknown} unknown, {not_sent} not_sent"
        );
        sums = (sums.0 + ran, sums.1 + unknown, sums.2 + not_sent);
    }
    drop(proxy);
    println!("{} answered, {} unknown, {} not_sent over 100 cuts", sums.0, sums.1, sums.2);
    assert!(sums.1 > 0 && sums.2 > 0, "{sums:?}: the cuts hit nothing");
}
