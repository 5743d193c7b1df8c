//! A server whose disk is full: a real one, that only the server sees.

use std::sync::Arc;

use tollgate_core::{Code, Limiter, OutageMode};
use tollgate_postgres::Postgres;
use tollgate_test_servers::PgVersion;
use tollgate_testkit::runtime::join_all;

use crate::support::{TEST_TIMEOUT, block_on, config, limit, spent, take};

const DISK_BYTES: u64 = 8 << 20;
/// Two megabytes that can be given back.
const FILLER: &str = "create table filler (x text); \
     insert into filler select repeat('x', 1000) from generate_series(1, 2000)";

/// A full disk is no outage, because a caller with many keys can fill it.
#[test]
fn a_disk_without_room_is_full_and_admits_nothing_until_there_is_room() {
    let builder = tollgate_test_servers::Postgres::builder(PgVersion::V15);
    let builder = builder.small_disk(DISK_BYTES).config("default_tablespace=small");
    let server = builder.start().unwrap();
    let folder = server.small_disk().unwrap();
    server.sql(&format!("create tablespace small location '{}'", folder.display())).unwrap();
    server.sql(FILLER).unwrap();
    let many = limit(1_000).on_outage(OutageMode::Open);
    let key = |number: usize| format!("{number:01500}");
    block_on(async {
        let store = Arc::new(Postgres::connect(config(&server.url())).await.unwrap());
        let mut full = None;
        let mut charged = 0;
        while full.is_none() {
            assert!(charged < 10_000, "the disk is not full");
            let keys: Vec<String> = (charged..charged + 50).map(key).collect();
            let taken = join_all(keys.iter().map(|key| take(&store, &many, key))).await;
            charged += 50;
            full = taken.into_iter().find_map(Result::err);
        }
        let error = full.unwrap();
        println!("after {charged} keys: {error}");
        assert_eq!((error.code(), error.is_not_sent()), (Code::StoreFull, true), "{error}");
        assert_eq!(spent(&store, &many, &key(0)).await, 1, "what was charged stays");
        // Nor does an outage mode admit.
        let limiter = Limiter::builder(Arc::clone(&store)).deadline(TEST_TIMEOUT).build();
        let mut refused = 0;
        for number in 20_000..20_050 {
            match limiter.check(many.charge(&key(number))).await {
                // Small holes are left in pages.
                Ok(decision) => assert!(decision.degraded.is_none(), "{decision:?}"),
                Err(error) => {
                    assert_eq!(error.code(), Code::StoreFull, "{error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0, "there was room");
        server.sql("drop table filler").unwrap();
        server.sql("checkpoint").unwrap();
        assert!(take(&store, &many, &key(30_000)).await.unwrap());
        assert_eq!(spent(&store, &many, &key(30_000)).await, 1);
        assert_eq!(spent(&store, &many, &key(0)).await, 1, "what was charged stays");
    });
}
