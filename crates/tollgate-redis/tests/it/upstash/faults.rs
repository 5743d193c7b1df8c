//! Failures: what is known of a call that failed, and that connections are used again.

use std::time::Duration;

use tollgate_core::algorithm::Gcra;
use tollgate_core::{Code, Limit, Limiter, Quota, Verdict};
use tollgate_redis::transport::{Reply, Transport};
use tollgate_redis::upstash::{NativeHttp, Upstash};
use tollgate_test_servers::wait::until_ok;
use tollgate_test_servers::{Error, FaultProxy, Mode, Redis, shared};

use super::{LONG_TIMEOUT, TOKEN, shim, store, upstash, with_long_timeouts};
use crate::client::{count, stored, text};

/// Short, for what never answers.
const SHORT: Duration = Duration::from_millis(300);

fn with_short_timeout() -> NativeHttp {
    with_long_timeouts().reply_timeout(SHORT)
}

#[tokio::test]
async fn calls_share_a_request_and_requests_share_a_connection() {
    let shim = shim(shared::redis());
    let upstash = upstash(&shim.url());
    let calls: Vec<_> = (0..100).map(|at| count("upstash:shared", &at.to_string())).collect();
    let mut replies: Vec<Reply> = Vec::new();
    upstash.send_all(&calls, |_, reply| replies.push(reply.unwrap())).await;
    assert!(replies.into_iter().enumerate().all(|(at, reply)| reply == text(&at.to_string())));
    assert_eq!((shim.requests(), shim.connections()), (1, 1));
    for _ in 0..10 {
        upstash.send(&count("upstash:shared", "x")).await.unwrap();
    }
    assert_eq!((shim.requests(), shim.connections()), (11, 1));
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_costs_nothing() {
    let shim = shim(shared::redis());
    let upstash = upstash(&shim.url());
    upstash.send(&count("upstash:idle", "x")).await.unwrap();
    shim.close_connections();
    // The runtime notices it later.
    tokio::time::timeout(LONG_TIMEOUT, async {
        while upstash.send(&count("upstash:idle", "x")).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    assert_eq!(shim.connections(), 2);
}

#[tokio::test]
async fn a_wrong_token_is_an_outage_that_shows_no_secret() {
    let shim = shim(shared::redis());
    let upstash = Upstash::over(with_long_timeouts(), &shim.url(), "wr0ng-t0ken").unwrap();
    let error = upstash.send(&count("upstash:token", "x")).await.unwrap_err();
    assert_eq!((error.code(), error.is_not_sent()), (Code::StoreUnavailable, true));
    for shown in [format!("{error}"), format!("{error:?}"), format!("{upstash:?}")] {
        assert!(!shown.contains("t0ken"), "{shown}");
    }
    assert_eq!(stored(shared::redis(), "upstash:token"), 0);
}

#[tokio::test]
async fn no_server_means_not_sent() {
    let shim = shim(shared::redis());
    let url = shim.url();
    drop(shim);
    let error = upstash(&url).send(&count("upstash:none", "x")).await.unwrap_err();
    assert_eq!((error.code(), error.is_not_sent()), (Code::StoreUnavailable, true), "{error}");
}

#[tokio::test]
async fn a_lost_answer_leaves_the_outcome_unknown() {
    let redis = Redis::start().unwrap();
    let shim = shim(&redis);
    let proxy = FaultProxy::to(shim.addr()).unwrap();
    let url = format!("http://{}", proxy.addr());
    let upstash = Upstash::over(with_short_timeout(), &url, TOKEN).unwrap();
    proxy.set(Mode::DropReplies).unwrap();
    let error = upstash.send(&count("lost", "x")).await.unwrap_err();
    assert_eq!((error.code(), error.is_not_sent()), (Code::Timeout, false), "{error}");
    // It ran, or still does: no caller waits for it any more.
    let ran = || match stored(&redis, "lost") {
        0 => Err(Error::new("has not run yet")),
        _ => Ok(()),
    };
    until_ok(LONG_TIMEOUT, ran).unwrap();
    // The connection is not used again: what follows would be misread.
    proxy.set(Mode::Pass).unwrap();
    assert_eq!(upstash.send(&count("lost", "y")).await.unwrap(), text("y"));
    assert_eq!(stored(&redis, "lost"), 2);
}

#[tokio::test]
async fn a_connection_cut_in_the_middle_leaves_the_outcome_unknown() {
    let redis = Redis::start().unwrap();
    let shim = shim(&redis);
    let proxy = FaultProxy::to(shim.addr()).unwrap();
    let upstash = upstash(&format!("http://{}", proxy.addr()));
    proxy.set(Mode::DropReplies).unwrap();
    let call = count("cut", "x");
    let cut = async {
        tokio::task::spawn_blocking(move || {
            proxy.wait_until(LONG_TIMEOUT, |seen| seen.lost_to_client_bytes > 0).unwrap();
            proxy.reset().unwrap();
        })
        .await
        .unwrap();
    };
    let (reply, ()) = tokio::join!(upstash.send(&call), cut);
    let error = reply.unwrap_err();
    assert_eq!((error.code(), error.is_not_sent()), (Code::StoreUnavailable, false), "{error}");
    assert_eq!(stored(&redis, "cut"), 1);
}

#[tokio::test]
async fn a_server_that_is_down_behind_the_interface_is_an_outage() {
    let redis = Redis::start().unwrap();
    let shim = shim(&redis);
    let upstash = upstash(&shim.url());
    upstash.send(&count("down", "x")).await.unwrap();
    redis.kill().unwrap();
    let error = upstash.send(&count("down", "x")).await.unwrap_err();
    assert_eq!((error.code(), error.is_not_sent()), (Code::StoreUnavailable, false), "{error}");
    redis.restart().unwrap();
    assert_eq!(upstash.send(&count("down", "x")).await.unwrap(), text("x"));
}

#[tokio::test]
async fn scripts_that_were_flushed_are_sent_again() {
    let redis = Redis::start().unwrap();
    let shim = shim(&redis);
    let limiter = Limiter::new(store(upstash(&shim.url())));
    let limit = Limit::new("flushed", Gcra::new(Quota::per_hour(3)).unwrap()).unwrap();
    let mut verdicts = Vec::new();
    for _ in 0..4 {
        redis.client().unwrap().call(&["SCRIPT", "FLUSH"]).unwrap().ok().unwrap();
        verdicts.push(limiter.check(limit.charge("ada")).await.unwrap().verdict);
    }
    let allowed = Verdict::Allowed;
    assert_eq!(verdicts, [allowed, allowed, allowed, Verdict::Denied]);
}
