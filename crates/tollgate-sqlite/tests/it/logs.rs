//! What is written goes to a log first and from there into the tables, while several processes
//! write: nothing is lost or counted twice on the way, and the logs stay short.

use std::path::Path;

use tollgate_core::Admission;
use tollgate_test_servers::{TestProcess, TestProcesses};
use tollgate_testkit::rng::Rng;

use crate::support::{NOW, admitted, block_on, file, join_all, limit, open, spent, sql, take_once};

const KEYS: u64 = 20;
const ROUNDS: u64 = 60;
const CALLERS: u64 = 10;
/// What an epoch writes at most, and what is left of the one before it; and rounds that are under
/// way.
const LOGS_MAX: i64 = 3 * (2 << 20);

/// Long, so that a few hundred charges are several epochs.
fn key(number: u64) -> String {
    format!("{number:08}").repeat(1_000)
}

fn number(path: &Path, query: &str) -> i64 {
    sql(path).query_row(query, [], |row| row.get(0)).unwrap()
}

fn logged(path: &Path) -> i64 {
    let all = "SELECT ifnull(sum(length(key) + length(value)), 0) FROM \
               (SELECT * FROM tollgate_log_0 UNION ALL SELECT * FROM tollgate_log_1)";
    number(path, all)
}

/// Charges random keys; how often each. Reports its seed too.
fn charge(node: &TestProcess) {
    let store = open(Path::new(node.argument()));
    let many = limit(1 << 30);
    node.wait_for_release().unwrap();
    let seed = u64::from(std::process::id());
    let mut rng = Rng::new(seed);
    let mut counts = vec![0_u64; usize::try_from(KEYS).unwrap()];
    for _ in 0..ROUNDS {
        let numbers: Vec<u64> = (0..CALLERS).map(|_| rng.below(KEYS)).collect();
        let keys: Vec<String> = numbers.iter().map(|number| key(*number)).collect();
        let charges: Vec<_> = keys.iter().map(|key| [many.charge(key)]).collect();
        let callers = charges
            .iter()
            .map(|charges| async { admitted(&store, &Admission::of(charges), NOW).await.unwrap() });
        assert!(block_on(join_all(callers)).into_iter().all(|admitted| admitted));
        for number in numbers {
            *counts.get_mut(usize::try_from(number).unwrap()).unwrap() += 1;
        }
    }
    let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
    node.report(&format!("{seed} {}", counts.join(" "))).unwrap();
}

#[test]
fn what_four_processes_write_is_counted_while_it_is_folded() {
    if let Some(node) = TestProcess::this() {
        return charge(&node);
    }
    let (_folder, path) = file();
    let many = limit(1 << 30);
    // Knows the logs as they were at the start, and looks again when all is over.
    let late = open(&path);
    assert_eq!(block_on(spent(&late, &many, &key(0))), 0);
    let name = "logs::what_four_processes_write_is_counted_while_it_is_folded";
    let mut nodes = TestProcesses::start(4, name, path.to_str().unwrap()).unwrap();
    let reports = nodes.reports().unwrap();
    println!("seed, and charges by key: {reports:#?}");
    let mut sums = vec![0_u64; usize::try_from(KEYS).unwrap()];
    for report in &reports {
        for (sum, count) in sums.iter_mut().zip(report.split(' ').skip(1)) {
            *sum += count.parse::<u64>().unwrap();
        }
    }
    let (epoch, left) = (number(&path, "SELECT epoch FROM tollgate_stage"), logged(&path));
    println!("{epoch} epochs, {left} bytes left in the logs");
    assert!(epoch >= 3, "{epoch} epochs: too few to see anything");
    assert!(left <= LOGS_MAX, "{left} bytes in the logs");
    block_on(async {
        for store in [&late, &open(&path)] {
            for (number, sum) in (0..).zip(&sums) {
                assert_eq!(spent(store, &many, &key(number)).await, *sum, "key {number}");
            }
        }
        assert_eq!(late.sweep(NOW).await.unwrap(), 0);
        assert_eq!(logged(&path), 0, "a sweep folds everything");
        for (number, sum) in (0..).zip(&sums) {
            assert_eq!(spent(&late, &many, &key(number)).await, *sum, "key {number}");
        }
    });
}

/// Stores that take turns on one key, so that each has to know what the other has just written, or
/// moved.
#[test]
fn stores_that_take_turns_agree_across_epochs() {
    let (_folder, path) = file();
    let stores = [open(&path), open(&path)];
    let many = limit(1 << 30);
    block_on(async {
        for turn in 0..240_u64 {
            let (one, other) = if turn % 2 == 0 { (0, 1) } else { (1, 0) };
            // An id of its own, and the one that the other store has just charged.
            for id in [turn, turn.saturating_sub(1)] {
                let charge = [many.charge("shared")];
                let id = format!("{id}");
                assert!(take_once(&stores[one], charge[0], &id).await.unwrap());
            }
            let long = key(turn % KEYS);
            let charges = [many.charge(&long)];
            assert!(admitted(&stores[one], &Admission::of(&charges), NOW).await.unwrap());
            assert_eq!(spent(&stores[other], &many, "shared").await, turn + 1);
            if turn % 20 == 19 {
                stores[other].sweep(NOW).await.unwrap();
            }
        }
    });
    let epoch = number(&path, "SELECT epoch FROM tollgate_stage");
    assert!(epoch >= 12, "{epoch} epochs: too few to see anything");
}
