//! When a key is read, and when what was written last will do.

use tollgate_core::store::{CallContext, Store};
use tollgate_test_servers::shared::dynamodb;
use tollgate_test_servers::{DynamoDbGateway, Tally};

use crate::support::{block_on, fresh, limit, now, open, spent, table, take, take_once};

fn seen(tally: &Tally) -> (u64, u64, u64) {
    (tally.reads(), tally.writes(), tally.lost_races)
}

#[test]
fn a_key_of_one_process_is_rarely_read() {
    let gateway = DynamoDbGateway::to(dynamodb().addr()).unwrap();
    block_on(async {
        let store = fresh(&gateway.url(&table())).await;
        drop(gateway.take_tally());
        let many = limit(1_000);
        for _ in 0..10 {
            assert!(take(&store, many.charge("a")).await.unwrap());
        }
        // At first, and after eight writes.
        assert_eq!(seen(&gateway.take_tally()), (2, 10, 0));
        // A request id adds a record, and no read.
        for id in 0..6 {
            assert!(take_once(&store, many.charge("a"), &id.to_string()).await.unwrap());
        }
        let tally = gateway.take_tally();
        assert_eq!((seen(&tally), tally.of("TransactWriteItems")), ((0, 6, 0), 6));
        assert!(take(&store, many.charge("a")).await.unwrap());
        drop(gateway.take_tally());
        // One that was charged before is found, at the price of a lost race and a read.
        assert!(take_once(&store, many.charge("a"), "3").await.unwrap());
        assert_eq!(seen(&gateway.take_tally()), (1, 1, 1));
        assert_eq!(spent(&store, &many, "a").await, 17);
    });
}

#[test]
fn denials_and_peeks_are_always_read() {
    let gateway = DynamoDbGateway::to(dynamodb().addr()).unwrap();
    block_on(async {
        let url = gateway.url(&table());
        let (store, other) = (fresh(&url).await, open(&url));
        let single = limit(1);
        assert!(take(&store, single.charge("a")).await.unwrap());
        drop(gateway.take_tally());
        for _ in 0..3 {
            assert!(!take(&store, single.charge("a")).await.unwrap());
            store.load(&[single.charge("a")], CallContext::at(now())).await.unwrap();
        }
        assert_eq!(seen(&gateway.take_tally()), (6, 0, 0));
        other.reset(single.key("a"), CallContext::at(now())).await.unwrap();
        // What this process remembers would be a denial.
        assert!(take(&store, single.charge("a")).await.unwrap());
    });
}

#[test]
fn a_key_that_others_write_too_is_read_and_rarely_raced() {
    let gateway = DynamoDbGateway::to(dynamodb().addr()).unwrap();
    block_on(async {
        let url = gateway.url(&table());
        let (one, other) = (fresh(&url).await, open(&url));
        let many = limit(1_000);
        assert!(take(&one, many.charge("a")).await.unwrap());
        drop(gateway.take_tally());
        for _ in 0..20 {
            assert!(take(&other, many.charge("a")).await.unwrap());
            assert!(take(&one, many.charge("a")).await.unwrap());
        }
        let (reads, writes, lost) = seen(&gateway.take_tally());
        // The first remembered its key once, and was told what was there instead.
        assert_eq!((reads, writes, lost), (39, 41, 1));
        assert_eq!(spent(&other, &many, "a").await, 41);
        // The other is gone: one more read, and the key is its own again.
        drop(gateway.take_tally());
        for _ in 0..8 {
            assert!(take(&one, many.charge("a")).await.unwrap());
        }
        assert_eq!(seen(&gateway.take_tally()), (1, 8, 0));
    });
}
