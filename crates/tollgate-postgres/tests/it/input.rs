//! Keys and ids of any text; bad input is refused by name.

use tollgate_core::Code;
use tollgate_core::store::{CallContext, Retries, Store};
use tollgate_postgres::{Config, Postgres};
use tollgate_test_servers::PgVersion;
use tollgate_test_servers::shared::postgres;

use crate::support::{block_on, config, limit, spent, take, take_once};

#[test]
fn keys_and_ids_with_a_nul_are_keys_and_ids_of_their_own() {
    block_on(async {
        let store = Postgres::connect(config(&postgres(PgVersion::V15).url())).await.unwrap();
        let single = limit(1);
        for key in ["\0", "%00", "%2500", "a\0b", "a%00b"] {
            assert!(take(&store, &single, key).await.unwrap(), "{key:?} met another key");
            assert!(!take(&store, &single, key).await.unwrap());
            store.reset(single.key(key), CallContext::store_clock()).await.unwrap();
            assert_eq!(spent(&store, &single, key).await, 0);
        }
        let many = limit(100);
        for id in ["\0", "%00", "%2500", "'; DROP TABLE x; --"] {
            assert!(take_once(&store, many.charge("ids"), id).await.unwrap());
            assert!(take_once(&store, many.charge("ids"), id).await.unwrap());
        }
        assert_eq!(spent(&store, &many, "ids").await, 4);
    });
}

#[test]
fn a_key_that_is_too_long_is_refused_by_name() {
    block_on(async {
        let store = Postgres::connect(config(&postgres(PgVersion::V15).url())).await.unwrap();
        let single = limit(1);
        // Nothing that compresses: an index could hold more of that.
        let longest = (0..660).map(|n| char::from_u32(0x4e00 + n * 31 % 20_000).unwrap());
        let longest: String = longest.collect();
        assert!(take(&store, &single, &longest).await.unwrap());
        let error = take(&store, &single, &"x".repeat(2_001)).await.unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::InvalidRequest, Some("key")), "{error}");
        let error = store
            .load(&[single.charge(&"x".repeat(2_001))], CallContext::store_clock())
            .await
            .unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::InvalidRequest, Some("key")), "{error}");
    });
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let config = || "postgres://db/app".parse::<Config>().unwrap();
    for (refused, field) in [
        (config().connections(0), "connections"),
        (config().connections(65), "connections"),
        (config().tables("", "t"), "schema"),
        (config().tables("s", ""), "table"),
        (config().retries(Retries::default().max_retries(u32::MAX)), "max_retries"),
    ] {
        let error = Postgres::open(refused).unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some(field)), "{error}");
    }
    let error = Postgres::open(config()).map(drop).unwrap_err();
    assert_eq!(error.field(), Some("runtime"), "{error}");
}

#[test]
fn a_reading_is_refused_unless_the_config_accepts_it() {
    block_on(async {
        let store = Postgres::connect(config(&postgres(PgVersion::V15).url())).await.unwrap();
        let single = limit(1);
        let charge = [single.charge("a")];
        let given = CallContext::at(1);
        let admission = tollgate_core::Admission::of(&charge);
        assert_eq!(store.admit(&admission, given).await.unwrap_err().code(), Code::Unsupported);
        assert_eq!(store.load(&charge, given).await.unwrap_err().code(), Code::Unsupported);
    });
}
