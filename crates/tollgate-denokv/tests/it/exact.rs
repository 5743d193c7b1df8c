//! Exactly the quota over tasks, threads and stores, with few writes.

use tollgate_core::{Limit, Result};
use tollgate_test_servers::shared::denokv;
use tollgate_test_servers::{FaultProxy, TestProcess, TestProcesses};
use tollgate_testkit::model::ModelQuota;

use crate::support::{block_on, join_all, limit, name, open, spent, take};

const MONTH: u64 = 30 * 86_400_000_000;
const WRITE: &str = "POST /v2/atomic_write ";

/// One quota of every algorithm, each of fifty.
fn fifties(prefix: &str) -> Vec<Limit> {
    let quotas = ModelQuota::every_kind(50, MONTH).into_iter().enumerate();
    let limits = quotas.map(|(number, quota)| {
        let limit = Limit::with_rule(&format!("fifty-{number}"), quota.rule().unwrap());
        limit.unwrap().with_prefix(prefix).unwrap()
    });
    limits.collect()
}

#[test]
fn four_processes_admit_exactly_the_quota_of_every_algorithm() {
    if let Some(node) = TestProcess::this() {
        return be_a_node(&node);
    }
    let brief = format!("{} {}", name(), denokv().url());
    let test = "exact::four_processes_admit_exactly_the_quota_of_every_algorithm";
    let mut nodes = TestProcesses::start(4, test, &brief).unwrap();
    let reports = nodes.reports().unwrap();
    println!("admitted at once and in turn, by algorithm; a line per process: {reports:#?}");
    let mut sums = vec![0_u64; 2 * fifties("x").len()];
    for report in &reports {
        for (sum, count) in sums.iter_mut().zip(report.split(' ')) {
            *sum += count.parse::<u64>().unwrap();
        }
    }
    assert_eq!(sums, vec![50; sums.len()], "{reports:?}");
    let conflicts = nodes.reports().unwrap();
    let conflicts: u64 = conflicts.iter().map(|count| count.parse::<u64>().unwrap()).sum();
    let decisions = 4 * 100 * fifties("x").len();
    println!("{conflicts} lost races for {decisions} decisions of four processes");
}

fn be_a_node(node: &TestProcess) {
    let (prefix, url) = node.argument().split_once(' ').unwrap();
    let store = open(url);
    node.wait_for_release().unwrap();
    let counts = fifties(prefix).into_iter().flat_map(|fifty| {
        let at_once = block_on(join_all((0..50).map(|_| take(&store, &fifty, "at once"))));
        let in_turn = (0..50).map(|_| block_on(take(&store, &fifty, "in turn"))).collect();
        [at_once, in_turn].map(count)
    });
    let counts: Vec<String> = counts.map(|count| count.to_string()).collect();
    node.report(&counts.join(" ")).unwrap();
    node.report(&store.lost_races().to_string()).unwrap();
}

fn count(answers: Vec<Result<bool>>) -> usize {
    answers.into_iter().filter(|answer| *answer.as_ref().unwrap()).count()
}

/// Sixty-four callers at once, again and again: counted between the store and the server.
#[test]
fn a_hot_key_costs_at_most_a_tenth_of_a_write_per_decision() {
    const CALLERS: u64 = 64;
    const TIMES: u64 = 10;
    let proxy = FaultProxy::counting(denokv().addr(), WRITE).unwrap();
    let store = open(&denokv().url_at(proxy.addr()));
    let many = limit(1 << 30);
    block_on(async {
        for _ in 0..TIMES {
            let callers = (0..CALLERS).map(|_| take(&store, &many, "hot"));
            assert!(join_all(callers).await.into_iter().all(Result::unwrap));
        }
        let (decisions, writes) = (CALLERS * TIMES, proxy.traffic().counted);
        println!("{writes} writes for {decisions} decisions");
        assert!(
            writes >= 1 && writes * 10 <= decisions,
            "{writes} writes for {decisions} decisions"
        );
        assert_eq!(spent(&store, &many, "hot").await, decisions);
    });
}
