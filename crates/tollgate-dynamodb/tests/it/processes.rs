//! Several processes on one key, all at the same moment: exactly the limit, for every algorithm;
//! and how often they race.

use std::net::SocketAddr;

use tollgate_core::store::{CallContext, Retries, Store};
use tollgate_core::{Code, Limit};
use tollgate_dynamodb::DynamoDb;
use tollgate_test_servers::shared::dynamodb;
use tollgate_test_servers::{DynamoDbGateway, TestProcess, TestProcesses};
use tollgate_testkit::model::ModelQuota;
use tollgate_testkit::runtime::join_all;

use crate::support::{block_on, config, limit, now, table, take};

const PROCESSES: usize = 4;
const CHECKS: usize = 50;
const LIMIT: u64 = 50;
/// Callers of each process under load, and checks of each caller.
const CALLERS: usize = 16;
const TURNS: usize = 25;
/// Nothing comes back while the test runs.
const MONTH: u64 = 30 * 86_400_000_000;

fn limits() -> Vec<(String, Limit)> {
    let quotas = ModelQuota::every_kind(LIMIT, MONTH).into_iter().enumerate();
    let named = quotas.map(|(variant, quota)| {
        let name = format!("{}-{variant}", quota.kind().name());
        let limit = Limit::with_rule(&name, quota.rule().unwrap()).unwrap();
        (name, limit)
    });
    named.collect()
}

/// What each of the processes does, part by part: reports how many of its checks passed.
fn be_one_of_several(node: &TestProcess) {
    // The usual waits, and more attempts than any machine is busy for.
    let with_long_timeouts = Retries::default().max_retries(200);
    let store =
        block_on(async { DynamoDb::open(config(node.argument()).retries(with_long_timeouts)) })
            .unwrap();
    // Connected before the first part begins.
    block_on(store.load(&[limit(1).charge("unused")], CallContext::at(now()))).unwrap();
    for (_, limit) in limits() {
        node.wait_for_release().unwrap();
        let checks = (0..CHECKS).map(|_| take(&store, limit.charge("shared")));
        let passed = block_on(join_all(checks)).into_iter().filter(|one| *one.as_ref().unwrap());
        node.report(&passed.count().to_string()).unwrap();
    }
    node.wait_for_release().unwrap();
    // As a server has it: the usual number of attempts.
    let store = block_on(async { DynamoDb::open(config(node.argument())) }).unwrap();
    let (store, many) = (&store, &limit(1 << 30));
    let callers = (0..CALLERS).map(|_| async move {
        let mut passed = 0;
        for _ in 0..TURNS {
            match take(store, many.charge("shared")).await {
                Ok(is_allowed) => passed += usize::from(is_allowed),
                Err(error) => assert_eq!(error.code(), Code::ConflictExhausted, "{error}"),
            }
        }
        passed
    });
    let passed: usize = block_on(join_all(callers)).into_iter().sum();
    node.report(&passed.to_string()).unwrap();
}

/// How many passed in each of the processes.
fn passed(nodes: &mut TestProcesses) -> Vec<u64> {
    nodes.reports().unwrap().into_iter().map(|count| count.parse().unwrap()).collect()
}

/// Runs the test of this name in several other processes, which are told where the table is.
pub(crate) fn exactly_the_limit_passes(test: &str, server: impl FnOnce() -> Option<SocketAddr>) {
    if let Some(node) = TestProcess::this() {
        return be_one_of_several(&node);
    }
    let Some(server) = server() else { return };
    let gateway = DynamoDbGateway::to(server).unwrap();
    let url = gateway.url(&table());
    block_on(DynamoDb::migrate(config(&url))).unwrap();
    drop(gateway.take_tally());
    let mut nodes = TestProcesses::start(PROCESSES, test, &url).unwrap();
    for (name, _) in limits() {
        let counts = passed(&mut nodes);
        println!("{name}: {counts:?}");
        assert_eq!(counts.iter().sum::<u64>(), LIMIT, "{name}: {counts:?}");
        nodes.release().unwrap();
    }
    println!("{test}");
    let counts = passed(&mut nodes);
    let decisions = PROCESSES * (CHECKS * limits().len() + CALLERS * TURNS);
    print_races(&gateway, decisions);
    let answered: u64 = counts.iter().sum();
    println!("{} under load were not decided", (PROCESSES * CALLERS * TURNS) as u64 - answered);
    let store = block_on(async { DynamoDb::open(config(&url)) }).unwrap();
    let spent = block_on(crate::support::spent(&store, &limit(1 << 30), "shared"));
    assert_eq!(spent, answered);
}

fn print_races(gateway: &DynamoDbGateway, decisions: usize) {
    let tally = gateway.take_tally();
    println!(
        "{PROCESSES} processes, {decisions} decisions: {} lost races ({:.4} per decision), \
         {} writes, {} reads",
        tally.lost_races,
        tally.lost_races as f64 / decisions as f64,
        tally.writes(),
        tally.reads()
    );
}

#[test]
fn four_processes_admit_exactly() {
    let server = || Some(dynamodb().addr());
    exactly_the_limit_passes("processes::four_processes_admit_exactly", server);
}
