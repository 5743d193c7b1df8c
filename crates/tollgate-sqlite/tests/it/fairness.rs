//! One writer serves all policies: a flood in one of them delays callers of another by one round.

use std::path::Path;

use tollgate_core::Limit;

use crate::support::{block_on, file, join_all, open, policy, sql, start, take};

/// More than a round decides.
const FLOOD: usize = 3_000;
/// The first round of a store decides this many.
const FIRST_ROUND: i64 = 64;

/// Where a key of the policy is in the order of writing.
fn row_of(path: &Path, policy: &str) -> i64 {
    let row = "SELECT number FROM tollgate_log_0 WHERE instr(CAST(key AS TEXT), ?1)";
    sql(path).query_row(row, [format!(":{policy}:")], |row| row.get(0)).unwrap()
}

/// Queues calls while another connection holds the file, so that all of them wait.
fn flood_then_one(path: &Path, flood: &Limit, keys: &[String], (last, key): (&Limit, &str)) {
    let store = open(path);
    let holder = sql(path);
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    block_on(async {
        let mut calls: Vec<_> = keys.iter().map(|key| Box::pin(take(&store, flood, key))).collect();
        calls.push(Box::pin(take(&store, last, key)));
        for call in &mut calls {
            start(call.as_mut()).await;
        }
        holder.execute_batch("ROLLBACK").unwrap();
        assert!(join_all(calls).await.into_iter().all(Result::unwrap));
    });
}

#[test]
fn a_flood_of_new_keys_delays_another_policy_by_one_round() {
    let (_folder, path) = file();
    let (flood, other) = (policy("flood", 1), policy("other", 1));
    let keys: Vec<String> = (0..FLOOD).map(|key| key.to_string()).collect();
    flood_then_one(&path, &flood, &keys, (&other, "a"));
    let row = row_of(&path, "other");
    assert!(row <= FIRST_ROUND, "{row} of {FLOOD}");
}

/// A key is written once per round, so the rows count the rounds.
#[test]
fn a_flood_on_one_key_delays_the_other_keys_of_its_policy_by_one_round() {
    let (_folder, path) = file();
    let many = policy("many", 1 << 30);
    flood_then_one(&path, &many, &vec!["hot".to_owned(); FLOOD], (&many, "cold"));
    let row = "SELECT number FROM tollgate_log_0 WHERE instr(CAST(key AS TEXT), '{cold}')";
    let row: i64 = sql(&path).query_row(row, [], |row| row.get(0)).unwrap();
    let rounds = "SELECT count(*) FROM tollgate_log_0 WHERE instr(CAST(key AS TEXT), '{hot}')";
    let rounds: i64 = sql(&path).query_row(rounds, [], |row| row.get(0)).unwrap();
    assert!(row <= 2 && rounds > 1, "row {row} of {rounds} rounds");
}
