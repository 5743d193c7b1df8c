//! Exactly the quota over tasks, threads and processes, with few commits.

use std::fs;
use std::path::Path;

use tollgate_core::{Admission, Limit, Result};
use tollgate_test_servers::{TestProcess, TestProcesses};
use tollgate_testkit::model::ModelQuota;
use tollgate_testkit::rng::Rng;

use crate::support::{
    NOW, admitted, block_on, file, join_all, limit, open, spent, sql, start, take,
};

const MONTH: u64 = 30 * 86_400_000_000;

/// One quota of every algorithm, each of fifty.
fn fifties() -> Vec<Limit> {
    let quotas = ModelQuota::every_kind(50, MONTH).into_iter().enumerate();
    let limits = quotas.map(|(number, quota)| {
        Limit::with_rule(&format!("fifty-{number}"), quota.rule().unwrap()).unwrap()
    });
    limits.collect()
}

#[test]
fn four_processes_admit_exactly_the_quota_of_every_algorithm() {
    if let Some(node) = TestProcess::this() {
        let store = open(Path::new(node.argument()));
        node.wait_for_release().unwrap();
        let counts = fifties().into_iter().flat_map(|fifty| {
            let at_once = block_on(join_all((0..50).map(|_| take(&store, &fifty, "at once"))));
            let in_turn = (0..50).map(|_| block_on(take(&store, &fifty, "in turn"))).collect();
            [at_once, in_turn].map(count)
        });
        let counts: Vec<String> = counts.map(|count| count.to_string()).collect();
        node.report(&counts.join(" ")).unwrap();
        return;
    }
    let (_folder, path) = file();
    let name = "exact::four_processes_admit_exactly_the_quota_of_every_algorithm";
    let mut nodes = TestProcesses::start(4, name, path.to_str().unwrap()).unwrap();
    let reports = nodes.reports().unwrap();
    println!("admitted at once and in turn, by algorithm; a line per process: {reports:#?}");
    let mut sums = vec![0_u64; 2 * fifties().len()];
    for report in &reports {
        for (sum, count) in sums.iter_mut().zip(report.split(' ')) {
            *sum += count.parse::<u64>().unwrap();
        }
    }
    assert_eq!(sums, vec![50; sums.len()], "{reports:?}");
}

fn count(answers: Vec<Result<bool>>) -> usize {
    answers.into_iter().filter(|answer| *answer.as_ref().unwrap()).count()
}

/// What was acknowledged is what is stored, for sets of keys that overlap, from several stores.
#[test]
fn what_was_acknowledged_is_stored_whatever_the_keys() {
    const STORES: u64 = 3;
    const KEYS: u64 = 40;
    const ADMISSIONS: u64 = 150;
    let seed = 0x7011_6A7E;
    println!("seed {seed:#x}");
    let (_folder, path) = file();
    let many = limit(1 << 30);
    let keys: Vec<String> = (0..KEYS).map(|key| format!("key {key}")).collect();
    let stores: Vec<_> = (0..STORES).map(|_| open(&path)).collect();
    let sets: Vec<Vec<Vec<usize>>> = (0..STORES)
        .map(|store| {
            let mut rng = Rng::new(seed + store);
            let set =
                |rng: &mut Rng| (0..3).map(|_| usize::try_from(rng.below(KEYS)).unwrap()).collect();
            (0..ADMISSIONS).map(|_| set(&mut rng)).collect()
        })
        .collect();
    block_on(async {
        let charged = stores.iter().zip(&sets).flat_map(|(store, sets)| {
            sets.iter().map(move |set| (store, set)).map(|(store, set)| {
                let (many, keys) = (&many, &keys);
                async move {
                    let charges: Vec<_> = set.iter().map(|key| many.charge(&keys[*key])).collect();
                    admitted(store, &Admission::of(&charges), NOW).await
                }
            })
        });
        for admitted in join_all(charged).await {
            assert!(admitted.unwrap());
        }
        let mut expected = vec![0_u64; keys.len()];
        for key in sets.into_iter().flatten().flatten() {
            expected[key] += 1;
        }
        for (key, expected) in keys.iter().zip(expected) {
            assert_eq!(spent(&stores[0], &many, key).await, expected, "{key}");
        }
    });
}

/// Sixty-four callers wait while another connection holds the file, again and again: counted at the
/// file.
#[test]
fn a_hot_key_costs_at_most_a_tenth_of_a_commit_per_decision() {
    const CALLERS: u64 = 64;
    const TIMES: u64 = 10;
    let (_folder, path) = file();
    let store = open(&path);
    let many = limit(1 << 30);
    let holder = sql(&path);
    block_on(async {
        assert!(take(&store, &many, "hot").await.unwrap());
        let before = commits(&path);
        for _ in 0..TIMES {
            holder.execute_batch("BEGIN IMMEDIATE").unwrap();
            let mut callers: Vec<_> =
                (0..CALLERS).map(|_| Box::pin(take(&store, &many, "hot"))).collect();
            for caller in &mut callers {
                start(caller.as_mut()).await;
            }
            holder.execute_batch("ROLLBACK").unwrap();
            assert!(join_all(callers).await.into_iter().all(Result::unwrap));
        }
        let (decisions, commits) = (CALLERS * TIMES, commits(&path) - before);
        println!("{commits} commits for {decisions} decisions");
        assert!(commits >= 1, "the log was not read");
        assert!(commits * 10 <= decisions, "{commits} commits for {decisions} decisions");
        assert_eq!(spent(&store, &many, "hot").await, decisions + 1);
    });
}

/// The frames of the write-ahead log that end a transaction: a header of 32 bytes, then frames of
/// 24 bytes and a page, where the second number is not 0 at the end of a transaction. There are too
/// few of them for the log to start over.
fn commits(path: &Path) -> u64 {
    let log = fs::read(format!("{}-wal", path.display())).unwrap();
    let (header, frames) = log.split_at(32);
    let page = u32::from_be_bytes(header.get(8..12).unwrap().try_into().unwrap());
    let frames = frames.chunks_exact(24 + usize::try_from(page).unwrap());
    let ends = frames.filter(|frame| frame.get(4..8) != Some(&[0; 4]));
    u64::try_from(ends.count()).unwrap()
}
