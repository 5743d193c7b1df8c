//! Tokens: exchanged, refused, renewed, and never shown.

use tollgate_core::{Code, ManualClock};
use tollgate_denokv::{Config, DenoKv};
use tollgate_testkit::servers::shared::denokv;

use crate::front::{Front, TOKENS_END};
use crate::support::{SECOND, block_on, config, limit, open, spent, take};

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

/// Nobody has to be refused first.
#[test]
fn a_token_is_renewed_a_minute_before_its_end() {
    let front = Front::before(denokv());
    let clock = ManualClock::at(TOKENS_END - 3_600 * SECOND);
    let store = DenoKv::open(&config(&front.url("")).clock(clock.clone())).unwrap();
    let many = limit(1_000);
    block_on(async {
        // The next one ends at the same time, and is kept for a while all the same.
        for (before_end, exchanges) in [(3_600, 1), (61, 1), (60, 2), (56, 2), (55, 3), (54, 3)] {
            clock.set(TOKENS_END - before_end * SECOND);
            assert!(take(&store, &many, "a").await.unwrap());
            assert_eq!(front.exchanges(), exchanges, "{before_end} s before the end");
        }
        assert_eq!(spent(&store, &many, "a").await, 6);
    });
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
        let error = DenoKv::connect(&config(&wrong)).await.unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("token")), "{error}");
        let shown = format!("{error} {error:?} {store:?} {:?}", config(&wrong));
        assert!(!shown.contains("secret"), "{shown}");
    });
}

#[test]
fn a_token_is_needed() {
    let config = Config::new(&format!("denokv+http://{}", denokv().addr())).unwrap();
    let error = DenoKv::open(&config).unwrap_err();
    assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("token")), "{error}");
    let store = DenoKv::open(&config.token(denokv().token())).unwrap();
    assert!(block_on(take(&store, &limit(1), "a")).unwrap());
    let unusable = Config::new(&format!("denokv+http://{}", denokv().addr())).unwrap();
    let store = DenoKv::open(&unusable.token("line\nbreak")).unwrap();
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
