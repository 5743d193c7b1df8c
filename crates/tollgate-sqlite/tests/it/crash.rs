//! A process that is killed while it charges: nothing that it acknowledged is lost, and what was
//! asked under a request id is charged once.

use std::collections::BTreeSet;
use std::path::Path;

use tollgate_test_servers::{TestProcess, TestProcesses};

use crate::support::{block_on, file, join_all, limit, open, spent, sql, take, take_once};

const CALLERS: u64 = 16;
/// More than one life ever gets to.
const EACH: u64 = 1_000_000;
const LIVES: u64 = 3;
/// Acknowledgements after which a life ends, in the middle of others.
const ACKNOWLEDGED: usize = 300;

/// A key that fills the logs quickly, so that lives end while they are folded.
fn long(name: &str) -> String {
    format!("{name}{}", "-".repeat(8_192))
}

#[test]
fn no_acknowledged_charge_is_lost_and_none_is_made_twice() {
    if let Some(node) = TestProcess::this() {
        return charge_until_killed(&node);
    }
    let (_folder, path) = file();
    let many = limit(1 << 30);
    let mut acknowledged = BTreeSet::new();
    let mut plain = 0_u64;
    for life in 0..LIVES {
        let name = "crash::no_acknowledged_charge_is_lost_and_none_is_made_twice";
        let brief = format!("{life} {}", path.to_str().unwrap());
        let mut nodes = TestProcesses::start(1, name, &brief).unwrap();
        let mut reports: Vec<String> =
            (0..ACKNOWLEDGED).map(|_| nodes.report_of(0).unwrap()).collect();
        nodes.kill().unwrap();
        reports.extend(nodes.rest_of(0));
        let (ids, others): (Vec<String>, Vec<String>) =
            reports.into_iter().partition(|report| report != "plain");
        plain += u64::try_from(others.len()).unwrap();
        acknowledged.extend(ids);
    }
    let store = open(&path);
    block_on(async {
        // Whatever was written and not told is at most one round of each life.
        let kept = spent(&store, &many, &long("plain")).await;
        assert!(kept >= plain, "{kept} kept of {plain} that were acknowledged");
        assert!(kept <= plain + LIVES * CALLERS, "{kept} kept, {plain} acknowledged");
        let before = spent(&store, &many, &long("ids")).await;
        let told = u64::try_from(acknowledged.len()).unwrap();
        assert!(before >= told, "{before} kept of {told} that were acknowledged");
        println!("kept {kept} and {before}; acknowledged {plain} and {told}");
        for id in &acknowledged {
            assert!(take_once(&store, many.charge(&long("ids")), id).await.unwrap());
        }
        assert_eq!(spent(&store, &many, &long("ids")).await, before, "an id was charged twice");
        // A caller without an answer sends its id again, and is charged once.
        let untold: BTreeSet<String> =
            (0..LIVES).flat_map(|life| next_ids(life, &acknowledged)).collect();
        for id in &untold {
            assert!(take_once(&store, many.charge(&long("ids")), id).await.unwrap());
        }
        let epoch = "SELECT epoch FROM tollgate_stage";
        let epoch: i64 = sql(&path).query_row(epoch, [], |row| row.get(0)).unwrap();
        assert!(epoch > 0, "nothing was folded");
        let all = u64::try_from(acknowledged.union(&untold).count()).unwrap();
        assert_eq!(spent(&store, &many, &long("ids")).await, all);
    });
}

/// The ids that the callers of a life were about to hear of when it ended.
fn next_ids(life: u64, acknowledged: &BTreeSet<String>) -> Vec<String> {
    let callers = (0..CALLERS).filter(|caller| caller % 2 == 1);
    let next = callers.map(|caller| {
        let id = |number: &u64| format!("{life}-{caller}-{number}");
        (0..EACH).map(|number| id(&number)).find(|id| !acknowledged.contains(id)).unwrap()
    });
    next.collect()
}

/// Callers that charge, half of them under request ids, and report each answer after they have it.
fn charge_until_killed(node: &TestProcess) {
    let (life, path) = node.argument().split_once(' ').unwrap();
    let store = open(Path::new(path));
    let many = limit(1 << 30);
    node.wait_for_release().unwrap();
    let callers = (0..CALLERS).map(|caller| {
        let (store, many) = (&store, &many);
        async move {
            for number in 0..EACH {
                let report = if caller % 2 == 0 {
                    assert!(take(store, many, &long("plain")).await.unwrap());
                    "plain".to_owned()
                } else {
                    let id = format!("{life}-{caller}-{number}");
                    assert!(take_once(store, many.charge(&long("ids")), &id).await.unwrap());
                    id
                };
                node.report(&report).unwrap();
            }
        }
    });
    block_on(join_all(callers));
}
