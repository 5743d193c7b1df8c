//! Keys and ids of any text; what does not fit is refused by name, and nothing is written.

use std::time::Duration;

use tollgate_core::algorithm::SlidingLog;
use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Charge, Code, Limit, Quota, RequestId};
use tollgate_test_servers::shared::denokv;

use crate::support::{
    NOW, admitted, block_on, join_all, limit, name, open, spent, take, take_once,
};

#[test]
fn any_text_is_a_key_and_an_id() {
    let store = open(&denokv().url());
    let (single, many) = (limit(1), limit(100));
    block_on(async {
        for key in ["\0", "%00", "%2500", "a\0b", "a%00b", "\u{ff}", "é"] {
            assert!(take(&store, &single, key).await.unwrap(), "{key:?} met another key");
            assert!(!take(&store, &single, key).await.unwrap());
            store.reset(single.key(key), CallContext::at(NOW)).await.unwrap();
            assert_eq!(spent(&store, &single, key).await, 0);
        }
        for id in ["\0", "%00", "%2500", "\""] {
            assert!(take_once(&store, many.charge("ids"), id).await.unwrap());
            assert!(take_once(&store, many.charge("ids"), id).await.unwrap());
        }
        assert_eq!(spent(&store, &many, "ids").await, 4);
    });
}

#[test]
fn a_key_that_is_too_long_is_refused_by_name() {
    let store = open(&denokv().url());
    let single = limit(1);
    block_on(async {
        assert!(take(&store, &single, &"x".repeat(1_900)).await.unwrap());
        for error in [
            take(&store, &single, &"x".repeat(2_048)).await.unwrap_err(),
            take_once(&store, single.charge(&"x".repeat(1_980)), &"i".repeat(60))
                .await
                .unwrap_err(),
            store
                .load(&[single.charge(&"x".repeat(2_048))], CallContext::at(NOW))
                .await
                .unwrap_err(),
        ] {
            assert_eq!(
                (error.code(), error.field()),
                (Code::InvalidRequest, Some("key")),
                "{error}"
            );
        }
    });
}

/// Ten checks are what an atomic write may have: ten keys, or nine and a request id.
#[test]
fn ten_keys_are_written_at_once_and_eleven_are_refused() {
    let store = open(&denokv().url());
    let single = limit(1);
    let keys: Vec<String> = (0..11).map(|number| format!("key {number}")).collect();
    let charges: Vec<Charge<'_>> = keys.iter().map(|key| single.charge(key)).collect();
    block_on(async {
        let eleven = admitted(&store, &Admission::of(&charges), NOW).await.unwrap_err();
        assert_eq!(eleven.code(), Code::Unsupported, "{eleven}");
        let once = RequestId::new("id").unwrap();
        let ten = Admission::of(&charges[..10]).request_id(once);
        assert_eq!(admitted(&store, &ten, NOW).await.unwrap_err().code(), Code::Unsupported);
        let nine = Admission::of(&charges[..9]).request_id(once);
        assert!(admitted(&store, &nine, NOW).await.unwrap());
        assert!(admitted(&store, &nine, NOW).await.unwrap(), "it is replayed");
        // One of them has nothing left, so that none is charged.
        assert!(!admitted(&store, &Admission::of(&charges[1..]), NOW).await.unwrap());
        assert_eq!(spent(&store, &single, "key 10").await, 0);
        // More than one read holds.
        assert_eq!(store.load(&charges, CallContext::at(NOW)).await.unwrap().states.len(), 11);
    });
}

/// A log of a thousand entries fits into a value of 64 KiB; longer ones are refused when they are
/// used.
#[test]
fn the_longest_log_that_is_accepted_fits() {
    let store = open(&denokv().url());
    let log = |units| {
        let quota = Quota::new(units, Duration::from_secs(86_400));
        Limit::new(&name(), SlidingLog::new(quota).unwrap()).unwrap()
    };
    assert_eq!(store.capability().max_state_bytes, 65_536);
    block_on(async {
        let thousand = log(1_000);
        let charges = [thousand.charge("a")];
        let filled = (0..1_000).map(|number| {
            let (store, admission) = (&store, Admission::of(&charges));
            async move { admitted(store, &admission, NOW + number * 1_001).await }
        });
        assert!(join_all(filled).await.into_iter().all(Result::unwrap));
        assert!(!admitted(&store, &Admission::of(&charges), NOW + 2_000_000).await.unwrap());
        let longer = log(1_001);
        let error = take(&store, &longer, "a").await.unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::Unsupported, Some("limit")), "{error}");
    });
}
