//! Keys and ids of any text; bad input is refused by name; foreign items are never taken for fresh.

use serde_json::json;
use tollgate_core::Code;
use tollgate_core::store::{CallContext, Store};
use tollgate_dynamodb::DynamoDb;
use tollgate_test_servers::shared::dynamodb;

use crate::support::{block_on, config, fresh, limit, now, spent, table, take, take_once};

#[test]
fn keys_and_ids_of_any_text_are_keys_and_ids_of_their_own() {
    block_on(async {
        let store = fresh(&dynamodb().url(&table())).await;
        let single = limit(1);
        for key in
            ["", "\0", "%00", "a:once:b", "}:once:x", "{}", "ключ", "\u{1F980}", "a\nb", "\""]
        {
            assert!(take(&store, single.charge(key)).await.unwrap(), "{key:?} met another key");
            assert!(!take(&store, single.charge(key)).await.unwrap());
            store.reset(single.key(key), CallContext::at(now())).await.unwrap();
            assert_eq!(spent(&store, &single, key).await, 0);
        }
        let many = limit(100);
        for id in ["\0", "%00", "x:y", "\u{1F980}", "\"}, {\""] {
            assert!(take_once(&store, many.charge("ids"), id).await.unwrap());
            assert!(take_once(&store, many.charge("ids"), id).await.unwrap());
        }
        assert_eq!(spent(&store, &many, "ids").await, 5);
    });
}

#[test]
fn a_key_that_is_too_long_is_refused_by_name() {
    block_on(async {
        let store = fresh(&dynamodb().url(&table())).await;
        let single = limit(1);
        let room = 2_048 - single.key("x").to_text().len() + 1;
        assert!(take(&store, single.charge(&"x".repeat(room))).await.unwrap());
        let long = "x".repeat(room + 1);
        let error = take(&store, single.charge(&long)).await.unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::InvalidRequest, Some("key")), "{error}");
        let loaded = store.load(&[single.charge(&long)], CallContext::at(now())).await;
        assert_eq!(loaded.unwrap_err().field(), Some("key"));
    });
}

#[test]
fn what_another_program_wrote_is_corrupt_and_a_reset_replaces_what_it_can() {
    let table = table();
    block_on(async {
        let store = fresh(&dynamodb().url(&table)).await;
        let single = limit(1);
        let name = single.key("a").to_text();
        let put = |item| dynamodb().call("PutItem", &json!({"TableName": table, "Item": item}));
        put(json!({"key": {"S": name}, "count": {"N": "1"}})).unwrap();
        let error = take(&store, single.charge("a")).await.unwrap_err();
        assert_eq!(error.code(), Code::CorruptState, "{error}");
        let odd = json!({"key": {"S": name}, "state": {"S": "nonsense"}, "version": {"S": "1"}});
        put(odd).unwrap();
        let error = take(&store, single.charge("a")).await.unwrap_err();
        assert_eq!(error.code(), Code::CorruptState, "{error}");
        store.reset(single.key("a"), CallContext::at(now())).await.unwrap();
        assert!(take(&store, single.charge("a")).await.unwrap());
    });
}

#[test]
fn outside_of_a_runtime_it_says_so() {
    let url = dynamodb().url(&table());
    let opened = tollgate_testkit::runtime::block_on(async { DynamoDb::open(config(&url)) });
    assert_eq!(opened.unwrap_err().field(), Some("runtime"));
    let store = block_on(fresh(&url));
    let asked = tollgate_testkit::runtime::block_on(take(&store, limit(1).charge("a")));
    assert_eq!(asked.unwrap_err().field(), Some("runtime"));
}
