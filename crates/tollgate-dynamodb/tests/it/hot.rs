//! A hot key: the requests of one process are counted by a proxy; and a writer that loses every
//! race.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::store::Retries;
use tollgate_dynamodb::DynamoDb;
use tollgate_test_servers::DynamoDbGateway;
use tollgate_test_servers::shared::dynamodb;
use tollgate_testkit::contention;

use crate::support::{block_on, config, fresh, limit, now, spent, table, take};

const CALLERS: u64 = 64;
const CHECKS: u64 = 50;

#[test]
fn sixty_four_waiters_share_their_writes() {
    let gateway = DynamoDbGateway::to(dynamodb().addr()).unwrap();
    block_on(async {
        let store = Arc::new(fresh(&gateway.url(&table())).await);
        drop(gateway.take_tally());
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let store = Arc::clone(&store);
            callers.spawn(async move {
                let many = limit(1 << 30);
                for _ in 0..CHECKS {
                    assert!(take(&store, many.charge("hot")).await.unwrap());
                }
            });
        }
        callers.join_all().await;
        let tally = gateway.take_tally();
        let decisions = CALLERS * CHECKS;
        assert_eq!(spent(&store, &limit(1 << 30), "hot").await, decisions);
        println!(
            "{decisions} decisions of {CALLERS} callers: {} writes ({:.4} per decision), {} reads, \
             {} lost races",
            tally.writes(),
            tally.writes() as f64 / decisions as f64,
            tally.reads(),
            tally.lost_races
        );
        assert!(tally.writes() * 10 <= decisions, "{tally:?}");
        assert_eq!(tally.lost_races, 0, "one process raced itself");
        assert!(tally.reads() <= 1 + tally.writes() / 8, "the key is its own: {tally:?}");
    });
}

/// A caller that loses races until its deadline is not admitted by an outage mode.
#[test]
fn callers_that_lose_races_are_never_admitted() {
    let url = dynamodb().url(&table());
    block_on(async {
        let rival = Arc::new(fresh(&url).await);
        let minutes = Duration::from_secs(600);
        let slow = Retries::default().base_backoff(minutes).max_backoff(minutes);
        let loser = Arc::new(DynamoDb::open(config(&url).retries(slow)).unwrap());
        let (losses, stores) = (|| loser.lost_races(), (Arc::clone(&loser), rival));
        contention::losers_are_never_let_in(stores, losses, &limit(1 << 30), now()).await;
    });
}
