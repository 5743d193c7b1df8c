//! Tables that the store makes, finds, and refuses.

use tollgate_core::Code;
use tollgate_sqlite::{Durability, Sqlite};

use crate::support::{block_on, config, connect, file, limit, open, spent, sql, take};

#[test]
fn processes_that_start_together_make_the_tables_once() {
    let (_folder, path) = file();
    let many = limit(1_000);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(block_on(take(&open(&path), &many, "a")).unwrap()));
        }
    });
    assert_eq!(block_on(spent(&open(&path), &many, "a")), 8);
}

#[test]
fn tables_of_a_newer_version_are_refused() {
    let (_folder, path) = file();
    Sqlite::migrate(&config(&path)).unwrap();
    sql(&path)
        .execute_batch("UPDATE tollgate_meta SET number = 99 WHERE name = 'version'")
        .unwrap();
    let connected = block_on(Sqlite::connect(config(&path))).map(drop);
    for refused in [connected, Sqlite::migrate(&config(&path))] {
        let error = refused.unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("path")), "{error}");
        assert!(error.message().contains("99"), "{error}");
    }
}

#[test]
fn tables_are_only_made_where_that_is_allowed() {
    let (_folder, path) = file();
    let error = block_on(Sqlite::connect(config(&path).migrates(false))).unwrap_err();
    assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("path")), "{error}");
    Sqlite::migrate(&config(&path)).unwrap();
    let store = connect(config(&path).migrates(false));
    assert!(block_on(take(&store, &limit(1), "a")).unwrap());
    // Once more changes nothing.
    Sqlite::migrate(&config(&path)).unwrap();
    assert!(!block_on(take(&store, &limit(1), "a")).unwrap());
}

/// The tables may live in a file that belongs to another program.
#[test]
fn other_tables_in_the_file_are_left_alone() {
    let (_folder, path) = file();
    sql(&path).execute_batch("CREATE TABLE limits (x); INSERT INTO limits VALUES (7)").unwrap();
    assert!(block_on(take(&open(&path), &limit(1), "a")).unwrap());
    let seven: i64 = sql(&path).query_row("SELECT x FROM limits", [], |row| row.get(0)).unwrap();
    assert_eq!(seven, 7);
}

#[test]
fn what_was_spent_outlives_the_store_whatever_the_durability() {
    for durability in [Durability::Full, Durability::Relaxed] {
        let (_folder, path) = file();
        let many = limit(1_000);
        for spent_before in 0..3 {
            let store = connect(config(&path).durability(durability));
            assert_eq!(block_on(spent(&store, &many, "a")), spent_before);
            assert!(block_on(take(&store, &many, "a")).unwrap());
        }
    }
}
