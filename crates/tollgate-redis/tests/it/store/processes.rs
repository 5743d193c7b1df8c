//! Several processes on one key: exactly the limit, for every algorithm.

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Limit};
use tollgate_test_servers::{TestProcess, TestProcesses, shared};
use tollgate_testkit::derive::decisions_of;
use tollgate_testkit::model::ModelQuota;
use tollgate_testkit::runtime::join_all;

use super::{run, store};

const PROCESSES: usize = 4;
const CHECKS: usize = 50;
const LIMIT: u64 = 50;
/// Nothing comes back while the test runs.
const MONTH: u64 = 30 * 86_400_000_000;

fn limits(prefix: &str) -> Vec<(String, Limit)> {
    ModelQuota::every_kind(LIMIT, MONTH)
        .into_iter()
        .enumerate()
        .map(|(variant, quota)| {
            let name = format!("{}-{variant}", quota.kind().name());
            let limit = Limit::with_rule(&name, quota.rule().unwrap()).unwrap();
            (name, limit.with_prefix(prefix).unwrap())
        })
        .collect()
}

/// What each of the processes does: says how many of its checks were admitted.
fn be_one_of_several(node: &TestProcess) {
    let (prefix, url) = node.argument().split_once(' ').unwrap();
    let store = store(url);
    for (_, limit) in limits(prefix) {
        let charges = [limit.charge("shared")];
        let admission = Admission::of(&charges);
        node.wait_for_release().unwrap();
        let checks = (0..CHECKS).map(|_| store.admit(&admission, CallContext::store_clock()));
        let admitted = run(join_all(checks))
            .into_iter()
            .filter(|outcome| decisions_of(&admission, outcome.as_ref().unwrap()).unwrap().admitted)
            .count();
        node.report(&admitted.to_string()).unwrap();
    }
}

/// Runs the test of this name in several other processes, which are told where the server is.
fn admit_exactly(test: &str, url: impl FnOnce() -> String, prefix: &str) {
    if let Some(node) = TestProcess::this() {
        return be_one_of_several(&node);
    }
    let mut nodes = TestProcesses::start(PROCESSES, test, &format!("{prefix} {}", url())).unwrap();
    for (place, (name, _)) in limits(prefix).into_iter().enumerate() {
        if place > 0 {
            nodes.release().unwrap();
        }
        let counts: Vec<u64> =
            nodes.reports().unwrap().into_iter().map(|count| count.parse().unwrap()).collect();
        println!("{name}: {counts:?}");
        assert_eq!(counts.iter().sum::<u64>(), LIMIT, "{name}: {counts:?}");
    }
}

#[test]
fn four_processes_admit_exactly_on_one_server() {
    let test = "store::processes::four_processes_admit_exactly_on_one_server";
    admit_exactly(test, || shared::redis().url(), "processes-one");
}

#[test]
fn four_processes_admit_exactly_on_a_cluster() {
    let test = "store::processes::four_processes_admit_exactly_on_a_cluster";
    let url = || super::cluster_url(shared::redis_cluster());
    admit_exactly(test, url, "processes-cluster");
}
