//! Tokens: exchanged, refused, renewed, and never shown.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::time::timeout;
use tollgate_core::{Code, Limit, ManualClock};
use tollgate_denokv::{Config, DenoKv};
use tollgate_test_servers::shared::denokv;
use tollgate_test_servers::wait::Deadline;

use crate::front::{Front, TOKENS_END};
use crate::support::{NOW, SECOND, TEST_TIMEOUT, block_on, config, limit, open, spent, take};

#[test]
fn a_token_that_is_refused_is_exchanged_and_the_request_is_made_once() {
    let front = Front::before(denokv());
    let store = open(&front.url(""));
    let many = limit(1_000);
    block_on(async {
        for turn in 1..=4 {
            assert!(take(&store, &many, "a").await.unwrap());
            assert_eq!(front.exchanges(), turn);
            assert!(take(&store, &many, "a").await.unwrap());
            assert_eq!(front.exchanges(), turn, "a token that works is kept");
            front.revoke();
        }
        assert_eq!(spent(&store, &many, "a").await, 8);
    });
}

/// No call has to be refused first.
#[test]
fn a_token_is_renewed_a_minute_before_its_end() {
    let front = Front::before(denokv());
    let clock = ManualClock::at(TOKENS_END - 3_600 * SECOND);
    let store = DenoKv::open(config(&front.url("")).clock(clock.clone())).unwrap();
    let many = limit(1_000);
    block_on(async {
        // The next one ends at the same time, and is kept for a while all the same.
        for (before_end, exchanges) in [(3_600, 1), (61, 1), (60, 2), (56, 2), (55, 3), (54, 3)] {
            clock.set(TOKENS_END - before_end * SECOND);
            let deadline = Deadline::after(TEST_TIMEOUT);
            assert!(take(&store, &many, "a").await.unwrap());
            while front.used() < exchanges && !deadline.has_passed() {
                assert!(take(&store, &many, "a").await.unwrap());
            }
            assert_eq!(front.exchanges(), exchanges, "{before_end} s before the end");
            assert_eq!(front.used(), exchanges, "{before_end} s before the end");
        }
    });
}

/// A renewal may take as long as the old token lives.
#[test]
fn no_call_waits_for_a_token_while_the_old_one_works() {
    let front = Front::before(denokv());
    let clock = ManualClock::at(TOKENS_END - 3_600 * SECOND);
    let store = DenoKv::open(config(&front.url("")).clock(clock.clone())).unwrap();
    let many = limit(1_000);
    block_on(async {
        assert!(take(&store, &many, "a").await.unwrap());
        front.hold();
        clock.set(TOKENS_END - SECOND);
        // Long before the exchange is given up.
        let hasty = || timeout(TEST_TIMEOUT / 2, take(&store, &many, "a"));
        assert!(hasty().await.expect("it waits for the exchange").unwrap());
        front.wait_for_exchange(2);
        assert!(hasty().await.expect("it waits for the exchange").unwrap());
        assert_eq!((front.exchanges(), front.used()), (2, 1));
        front.release();
        assert_eq!(spent(&store, &many, "a").await, 3);
    });
}

/// Where an exchange takes longer than any caller has, it must not begin anew with each of them.
#[test]
fn an_exchange_continues_when_its_callers_are_cancelled() {
    let front = Front::before(denokv());
    front.hold();
    let store = open(&front.url(""));
    let many = limit(1_000);
    block_on(async {
        leave(&store, &many).await;
        front.wait_for_exchange(1);
        for _ in 0..3 {
            leave(&store, &many).await;
        }
        front.release();
        assert!(take(&store, &many, "a").await.unwrap());
        assert_eq!((front.exchanges(), front.used()), (1, 1), "another exchange was begun");
        assert_eq!(spent(&store, &many, "a").await, 1);
    });
}

/// Nor may a wrong token look like an outage because it takes long to be refused.
#[test]
fn a_refusal_is_returned_to_callers_with_a_short_deadline() {
    let front = Front::before(denokv());
    let clock = ManualClock::at(NOW);
    let url = front.url_with("wrong", "");
    let store = DenoKv::open(config(&url).clock(clock.clone())).unwrap();
    let many = limit(1_000);
    block_on(async {
        for turn in 1..=3 {
            let error = take(&store, &many, "a").await.unwrap_err();
            assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("token")));
            assert_eq!(front.exchanges(), 1, "turn {turn}: the server was asked again at once");
        }
        front.hold();
        clock.set(NOW + SECOND);
        for _ in 0..3 {
            let error = take(&store, &many, "a").await.unwrap_err();
            assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("token")));
        }
        front.wait_for_exchange(2);
        front.release();
    });
}

/// A caller that is cancelled at once.
async fn leave(store: &DenoKv, limit: &Limit) {
    let mut call = pin!(take(store, limit, "a"));
    let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
    assert!(polled.is_pending(), "without a token: {polled:?}");
}

#[test]
fn a_redirected_exchange_is_followed() {
    let front = Front::before(denokv());
    let store = open(&front.url("/moved"));
    assert!(block_on(take(&store, &limit(1), "a")).unwrap());
    assert_eq!(front.exchanges(), 1);
}

/// A wrong token must never look like an outage: then nothing would be limited.
#[test]
fn a_wrong_token_is_no_outage_and_is_never_shown() {
    let wrong = denokv().url().replace(denokv().token(), "a-wrong-secret");
    block_on(async {
        let store = open(&wrong);
        let error = take(&store, &limit(1), "a").await.unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("token")), "{error}");
        let error = DenoKv::connect(config(&wrong)).await.unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("token")), "{error}");
        let shown = format!("{error} {error:?} {store:?} {:?}", config(&wrong));
        assert!(!shown.contains("secret"), "{shown}");
    });
}

#[test]
fn a_token_is_needed() {
    let config: Config = format!("denokv+http://{}", denokv().addr()).parse().unwrap();
    let error = DenoKv::open(config.clone()).unwrap_err();
    assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("token")), "{error}");
    let store = DenoKv::open(config.clone().token(denokv().token())).unwrap();
    assert!(block_on(take(&store, &limit(1), "a")).unwrap());
    let store = DenoKv::open(config.token("line\nbreak")).unwrap();
    let error = block_on(take(&store, &limit(1), "a")).unwrap_err();
    assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("token")), "{error}");
}

/// Something that answers, but is no Deno KV.
#[test]
fn other_servers_are_refused() {
    let url = denokv().url();
    let store = open(&format!("{url}/elsewhere"));
    let error = block_on(take(&store, &limit(1), "a")).unwrap_err();
    assert_eq!(error.code(), Code::ConfigInvalid, "{error}");
    assert!(error.message().contains("404"), "{error}");
}
