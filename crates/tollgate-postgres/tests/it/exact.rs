//! Exactly the quota, from any process and with any clock.

use std::time::Duration;

use tollgate_core::algorithm::{Anchor, FixedWindow};
use tollgate_core::store::Store;
use tollgate_core::{Admission, Limit, Limiter, ManualClock, Quota};
use tollgate_postgres::Postgres;
use tollgate_test_servers::shared::postgres;
use tollgate_test_servers::{PgVersion, TestProcess, TestProcesses};
use tollgate_testkit::rng::Rng;
use tollgate_testkit::runtime::join_all;

use crate::support::{admitted, block_on, config, config_in, limit, schema, spent, take};

#[test]
fn four_processes_admit_exactly_the_quota() {
    if let Some(node) = TestProcess::this() {
        let (schema, url) = node.argument().split_once(' ').unwrap();
        node.wait_for_release().unwrap();
        return node.report(&block_on(fifty_checks(url, schema)).to_string()).unwrap();
    }
    for version in PgVersion::ALL {
        let brief = format!("{} {}", schema(), postgres(version).url());
        let name = "exact::four_processes_admit_exactly_the_quota";
        let reports = TestProcesses::start(4, name, &brief).unwrap().reports().unwrap();
        let counts = reports.iter().map(|count| count.parse::<u64>().unwrap());
        assert_eq!(counts.sum::<u64>(), 50, "{reports:?}");
    }
}

async fn fifty_checks(url: &str, schema: &str) -> usize {
    let store = Postgres::connect(config_in(url, schema)).await.unwrap();
    let fifty = limit(50);
    let answers = join_all((0..50).map(|_| take(&store, &fifty, "hot"))).await;
    store.close().await;
    answers.into_iter().filter(|answer| *answer.as_ref().unwrap()).count()
}

#[test]
fn skewed_and_stepping_clocks_of_nodes_do_not_matter() {
    block_on(async {
        let (url, schema) = (postgres(PgVersion::V15).url(), schema());
        let quota = Quota::new(50, Duration::from_secs(86_400));
        let window = FixedWindow::new(quota, Anchor::FirstHit).unwrap();
        let fifty = Limit::new("window", window).unwrap();
        // Right before the end of a window of the first node: the second is in the next one.
        let edge = 20_000 * 86_400_000_000_u64;
        let clocks = [ManualClock::at(edge - 25_000), ManualClock::at(edge + 25_000)];
        let mut nodes = Vec::new();
        for clock in &clocks {
            let store = Postgres::connect(config_in(&url, &schema)).await.unwrap();
            nodes.push(Limiter::with_clock(store, clock.clone()).build());
        }
        let mut admitted = 0;
        for round in 0..20 {
            let checks =
                nodes.iter().flat_map(|node| (0..5).map(|_| node.check(fifty.charge("a"))));
            for decision in join_all(checks).await {
                let decision = decision.unwrap();
                assert!(decision.degraded.is_none(), "{decision:?}");
                admitted += u32::from(decision.is_allowed());
            }
            // One goes on, the other steps back by more than a window.
            clocks[0].advance(Duration::from_millis(50));
            clocks[1].set(edge - round * 2 * 86_400_000_000);
        }
        assert_eq!(admitted, 50);
    });
}

/// Several nodes start on empty tables and charge overlapping sets of keys: no deadlock, and what
/// was acknowledged is what is stored.
#[test]
fn what_was_acknowledged_is_stored_whatever_the_order_of_keys() {
    const NODES: u64 = 4;
    const KEYS: u64 = 40;
    const ADMISSIONS: u64 = 150;
    let seed = 0x7011_6A7E;
    println!("seed {seed:#x}");
    block_on(async {
        let (url, schema) = (postgres(PgVersion::V18).url(), schema());
        let many = limit(1 << 30);
        let keys: Vec<String> = (0..KEYS).map(|key| format!("key {key}")).collect();
        let nodes = (0..NODES).map(|node| {
            let (url, schema, many, keys) = (&url, &schema, &many, &keys);
            async move {
                let mut rng = Rng::new(seed + node);
                let store = Postgres::connect(config_in(url, schema)).await.unwrap();
                let sets: Vec<Vec<usize>> = (0..ADMISSIONS)
                    .map(|_| (0..3).map(|_| usize::try_from(rng.below(KEYS)).unwrap()).collect())
                    .collect();
                let charged = join_all(sets.iter().map(|set| async {
                    let charges: Vec<_> = set.iter().map(|key| many.charge(&keys[*key])).collect();
                    assert!(admitted(&store, &Admission::of(&charges)).await.unwrap());
                }));
                charged.await;
                store.close().await;
                sets
            }
        });
        let mut expected = vec![0_u64; keys.len()];
        for key in join_all(nodes).await.into_iter().flatten().flatten() {
            expected[key] += 1;
        }
        let store = Postgres::connect(config_in(&url, &schema)).await.unwrap();
        for (key, expected) in keys.iter().zip(expected) {
            assert_eq!(spent(&store, &many, key).await, expected, "{key}");
        }
    });
}

/// Same-key waiters share row versions: far fewer updates than charges.
#[test]
fn a_hot_key_is_written_once_per_round() {
    block_on(async {
        let server = postgres(PgVersion::V15);
        let schema = schema();
        let store = Postgres::connect(config_in(&server.url(), &schema)).await.unwrap();
        let many = limit(1 << 30);
        let before = server.sql("select pg_current_xact_id()").unwrap();
        let charged = join_all((0..500).map(|_| take(&store, &many, "hot"))).await;
        assert!(charged.into_iter().all(Result::unwrap));
        assert_eq!(spent(&store, &many, "hot").await, 500);
        let line = format!("select ctid from {schema}.limits");
        // The row was inserted by the first round and updated by the few that followed: on its
        // first page still, and at one of its first places.
        let place = server.sql(&line).unwrap();
        let number: u32 =
            place.trim_matches(['(', ')']).split(',').nth(1).unwrap().parse().unwrap();
        assert!(number <= 20, "{number} row versions for 500 charges, since {before}");
        store.close().await;
    });
}

#[test]
fn stores_with_other_tables_never_meet() {
    block_on(async {
        let url = postgres(PgVersion::V15).url();
        let one = Postgres::connect(config(&url)).await.unwrap();
        let other = Postgres::connect(config(&url)).await.unwrap();
        let single = limit(1);
        assert!(take(&one, &single, "a").await.unwrap());
        assert!(take(&other, &single, "a").await.unwrap());
        assert!(!take(&one, &single, "a").await.unwrap());
    });
}
