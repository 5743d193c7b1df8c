//! The same on the emulator that Amazon publishes: another implementation, and an old one.
//!
//! It is fetched when the tests run. Where that is impossible they fail, unless the
//! environment says that it is left out.
#![expect(clippy::print_stderr, reason = "what is not tested must be seen")]

use std::sync::OnceLock;

use serde_json::json;
use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Limit, Quota};
use tollgate_test_servers::{DynamoDb, Result, wait};
use tollgate_testkit::conformance::{self, Options};

use crate::costs;
use crate::processes::exactly_the_limit_passes;
use crate::support::{TEST_TIMEOUT, block_on, create, fresh, limit, now, open, spent, table, take};

/// Set to leave these tests out.
const OPT_OUT: &str = "TOLLGATE_WITHOUT_DYNAMODB_LOCAL";

/// The emulator of this process; `None` when it is to be left out.
pub(crate) fn amazon() -> Option<&'static DynamoDb> {
    static SHARED: OnceLock<Result<DynamoDb>> = OnceLock::new();
    if std::env::var_os(OPT_OUT).is_some() {
        eprintln!("NOT TESTED on Amazon's DynamoDBLocal: {OPT_OUT} is set");
        return None;
    }
    match SHARED.get_or_init(DynamoDb::amazon) {
        Ok(server) => Some(server),
        Err(error) => panic!("{error}\n(set {OPT_OUT}=1 to do without it)"),
    }
}

#[test]
fn the_conformance_suite_and_the_golden_vectors_hold() {
    let Some(server) = amazon() else { return };
    // The suite lives in the past, and this emulator removes what has expired since then. So the
    // table has no time to live.
    let table = table();
    create(server, &table, "key", "S");
    let clauses = block_on(async {
        let store = open(&server.url(&table));
        conformance::run(&store, Options::default()).await
    });
    assert!(clauses.contains(&"replays_golden_vectors"));
    println!("{} clauses hold on DynamoDBLocal", clauses.len());
}

#[test]
fn four_processes_admit_exactly() {
    // The others are given a table and start no server.
    let server = || amazon().map(|server| server.addr());
    exactly_the_limit_passes("amazon::four_processes_admit_exactly", server);
}

/// It does not say what a failed condition found: the next attempt reads.
#[test]
fn a_lost_race_does_not_return_the_stored_item() {
    let Some(server) = amazon() else { return };
    block_on(async {
        let url = server.url(&table());
        let (one, other) = (fresh(&url).await, open(&url));
        let many = limit(1_000);
        for _ in 0..5 {
            // The first remembers what the second has overwritten.
            assert!(take(&one, many.charge("a")).await.unwrap());
            assert!(take(&other, many.charge("a")).await.unwrap());
        }
        assert_eq!(spent(&one, &many, "a").await, 10);
    });
}

/// Items go once they are past their time, and not a moment before they mean nothing any more.
#[test]
fn what_has_expired_is_removed_and_means_the_same() {
    let Some(server) = amazon() else { return };
    block_on(async {
        let table = table();
        let store = fresh(&server.url(&table)).await;
        let gcra = tollgate_core::algorithm::Gcra::new(Quota::per_second(10)).unwrap();
        let brief = Limit::new("brief", gcra).unwrap();
        let charges = [brief.charge("a")];
        // Charged an hour ago by the reading of the caller.
        let hour_ago = now() - 3_600_000_000;
        let spent_then = Admission::of(&charges);
        store.admit(&spent_then, CallContext::at(hour_ago)).await.unwrap();
        let count = || {
            let scanned = server.call("Scan", &json!({"TableName": table, "Select": "COUNT"}))?;
            match scanned["Count"].as_u64() {
                Some(0) => Ok(()),
                _ => Err(tollgate_test_servers::Error::new("the item is still there")),
            }
        };
        wait::until_ok(TEST_TIMEOUT, count).unwrap();
        let loaded = store.load(&charges, CallContext::at(now())).await.unwrap();
        assert_eq!(loaded.states, [None]);
        // This process still remembers the item, and finds out.
        assert!(take(&store, brief.charge("a")).await.unwrap());
    });
}

#[test]
fn it_charges_what_the_other_emulator_charges() {
    let Some(server) = amazon() else { return };
    costs::assert_costs("DynamoDBLocal", server.addr());
}
