//! What a million decisions cost, in requests and in units, counted in front of the server.
//!
//! `cargo test -p tollgate-dynamodb --test it costs -- --nocapture` prints the table of the guide.

use std::net::SocketAddr;
use std::time::Duration;

use tollgate_core::algorithm::SlidingLog;
use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Limit, Quota, RequestId};
use tollgate_dynamodb::DynamoDb;
use tollgate_test_servers::shared::dynamodb;
use tollgate_test_servers::{DynamoDbGateway, Tally};
use tollgate_testkit::runtime::join_all;

use crate::support::{admitted, block_on, fresh, limit, now, open, table, take};

/// Enough that what happens once does not show, few enough for every run of the tests.
const DECISIONS: u64 = 200;
const MILLION: f64 = 1_000_000.0;

/// What some decisions took.
struct Row {
    what: &'static str,
    decisions: u64,
    tally: Tally,
}

impl Row {
    fn print(&self) {
        let per_million = |count: f64| count * MILLION / self.decisions as f64;
        let tally = &self.tally;
        println!(
            "| {} | {:.0} | {:.0} | {:.0} | {:.0} |",
            self.what,
            per_million(tally.reads() as f64),
            per_million(tally.writes() as f64),
            per_million(tally.read_units),
            per_million(tally.write_units),
        );
    }
}

/// Notes what is asked of a server between two looks.
struct Meter {
    gateway: DynamoDbGateway,
    rows: Vec<Row>,
}

impl Meter {
    /// Whatever was asked until now is not to be counted.
    fn begin(&self) {
        drop(self.gateway.take_tally());
    }

    fn end(&mut self, what: &'static str, decisions: u64) {
        self.rows.push(Row { what, decisions, tally: self.gateway.take_tally() });
    }
}

async fn single_charges(meter: &mut Meter, store: &DynamoDb, other: &DynamoDb) {
    let many = limit(1 << 30);
    meter.begin();
    for key in 0..DECISIONS {
        assert!(take(store, many.charge(&format!("new {key}"))).await.unwrap());
    }
    meter.end("cold: a key's first decision", DECISIONS);
    for key in 0..DECISIONS {
        assert!(take(other, many.charge(&format!("new {key}"))).await.unwrap());
    }
    meter.end("cold: a key that another process wrote last", DECISIONS);
    for _ in 0..DECISIONS {
        assert!(take(store, many.charge("own")).await.unwrap());
    }
    meter.end("one after another on a key that one process uses", DECISIONS);
    for _ in 0..DECISIONS / 2 {
        assert!(take(store, many.charge("shared")).await.unwrap());
        assert!(take(other, many.charge("shared")).await.unwrap());
    }
    meter.end("one after another on a key that two processes use in turn", DECISIONS);
    rounds(store, &many).await;
    meter.end("hot: 64 at a time on a key that one process uses", 64 * DECISIONS);
    let none_left = limit(1);
    assert!(take(store, none_left.charge("spent")).await.unwrap());
    meter.begin();
    for _ in 0..DECISIONS {
        assert!(!take(store, none_left.charge("spent")).await.unwrap());
    }
    meter.end("denied, one after another", DECISIONS);
}

async fn ids_and_pairs(meter: &mut Meter, store: &DynamoDb) {
    let many = limit(1 << 30);
    meter.begin();
    for id in 0..DECISIONS {
        once(store, &many, "ids", &id.to_string()).await;
    }
    meter.end("with a request id, one after another on one key", DECISIONS);
    for id in 0..DECISIONS {
        once(store, &many, &format!("id {id}"), "first").await;
    }
    meter.end("with a request id, a key's first decision", DECISIONS);
    for _ in 0..DECISIONS {
        pair(store, &many, "user", "address").await;
    }
    meter.end("two keys at once, one after another on the same two", DECISIONS);
    for key in 0..DECISIONS {
        pair(store, &many, &format!("user {key}"), &format!("address {key}")).await;
    }
    meter.end("two keys at once, the first decision of both", DECISIONS);
}

async fn long_states(meter: &mut Meter, store: &DynamoDb) {
    let month = Quota::new(1_000, Duration::from_secs(30 * 86_400));
    let log = Limit::new("log", SlidingLog::new(month).unwrap()).unwrap();
    for _ in 0..200 {
        assert!(take(store, log.charge("a")).await.unwrap());
    }
    meter.begin();
    for _ in 0..10 {
        assert!(take(store, log.charge("a")).await.unwrap());
    }
    meter.end("sliding_log with 200 entries, one after another on one key", 10);
}

/// 64 callers at once, again and again.
async fn rounds(store: &DynamoDb, many: &Limit) {
    for _ in 0..DECISIONS {
        let charges = [many.charge("hot")];
        let admission = Admission::of(&charges);
        let at = CallContext::at(now());
        let checks = (0..64).map(|_| store.admit(&admission, at));
        for outcome in join_all(checks).await {
            outcome.unwrap();
        }
    }
}

async fn once(store: &DynamoDb, many: &Limit, key: &str, id: &str) {
    let charges = [many.charge(key)];
    let admission = Admission::of(&charges).request_id(RequestId::new(id).unwrap());
    assert!(admitted(store, &admission).await.unwrap());
}

async fn pair(store: &DynamoDb, many: &Limit, one: &str, other: &str) {
    let charges = [many.charge(one), many.charge(other)];
    assert!(admitted(store, &Admission::of(&charges)).await.unwrap());
}

/// Measures, prints, and holds what the guide says.
pub(crate) fn assert_costs(name: &str, server: SocketAddr) {
    let gateway = DynamoDbGateway::to(server).unwrap();
    let url = gateway.url(&table());
    let mut meter = Meter { gateway, rows: Vec::new() };
    block_on(async {
        let (store, other) = (fresh(&url).await, open(&url));
        single_charges(&mut meter, &store, &other).await;
        ids_and_pairs(&mut meter, &store).await;
        long_states(&mut meter, &store).await;
    });
    let rows = meter.rows;
    println!("| {name}: per million decisions | reads | writes | read units | write units |");
    println!("|---|---|---|---|---|");
    rows.iter().for_each(Row::print);
    // Requests per decision, in hundredths: reads and writes.
    let expected = [
        (100, 100),
        (100, 100),
        (13, 100),
        (100, 101),
        (1, 4),
        (100, 0),
        (13, 100),
        (100, 100),
        (13, 100),
        (100, 100),
        (100, 100),
    ];
    assert_eq!(rows.len(), expected.len());
    for (row, (reads, writes)) in rows.iter().zip(expected) {
        let at_most = |count: u64, hundredths: u64| count * 100 <= row.decisions * hundredths;
        let tally = &row.tally;
        assert!(at_most(tally.reads(), reads), "{}: {tally:?}", row.what);
        assert!(at_most(tally.writes(), writes), "{}: {tally:?}", row.what);
    }
}

#[test]
fn decisions_cost_what_the_guide_says() {
    assert_costs("dynoxide", dynamodb().addr());
}
