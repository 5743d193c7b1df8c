//! Several processes on one key: exactly the limit, for every algorithm.

use std::process::{Command, Stdio};

use tollgate_core::store::{At, Store};
use tollgate_core::{Admission, Limit};
use tollgate_testkit::derive::decisions_of;
use tollgate_testkit::model::ModelQuota;
use tollgate_testkit::runtime::join_all;
use tollgate_testkit::servers::shared;

use super::{run, store};

const PROCESSES: usize = 4;
const CHECKS: usize = 50;
const LIMIT: u64 = 50;
const URL: &str = "TOLLGATE_TEST_URL";
const PREFIX: &str = "TOLLGATE_TEST_PREFIX";
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
fn be_one_of_several(url: &str) {
    let store = store(url);
    for (name, limit) in limits(&std::env::var(PREFIX).unwrap()) {
        let charges = [limit.charge("everybody")];
        let admission = Admission::of(&charges);
        let checks = (0..CHECKS).map(|_| store.admit(&admission, At::StoreClock));
        let admitted = run(join_all(checks))
            .into_iter()
            .filter(|outcome| decisions_of(&admission, outcome.as_ref().unwrap()).unwrap().admitted)
            .count();
        println!("admitted {name} {admitted}");
    }
}

/// Runs the test of this name in several other processes, which find the URL in their environment.
fn admit_exactly(test: &str, url: impl FnOnce() -> String, prefix: &str) {
    if let Ok(url) = std::env::var(URL) {
        return be_one_of_several(&url);
    }
    let url = url();
    let children: Vec<_> = (0..PROCESSES)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "--nocapture", test])
                .envs([(URL, url.as_str()), (PREFIX, prefix)])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let outputs: Vec<String> = children
        .into_iter()
        .map(|child| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap())
        .collect();
    for (name, _) in limits(prefix) {
        let line = format!("admitted {name} ");
        let counts: Vec<u64> = outputs
            .iter()
            .flat_map(|output| output.lines())
            .filter_map(|text| text.split_once(&line)?.1.trim().parse().ok())
            .collect();
        assert_eq!(counts.len(), PROCESSES, "{name}: {outputs:?}");
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
