//! Files that are busy, damaged, missing or not permitted.

use std::fs::{self, File, TryLockError};
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Code, Limiter, ManualClock, OutageMode};
use tollgate_sqlite::{Config, Durability, Sqlite};
use tollgate_test_servers::{Error, wait};
use tollgate_testkit::contention;

use crate::support::{
    NOW, TEST_TIMEOUT, block_on, config, connect, file, join_all, limit, open, spent, sql, start,
    take, take_once,
};

/// Nor must a full file: an attacker can fill it. What has expired makes room.
#[test]
fn a_file_at_its_bound_is_full_until_values_expire() {
    let (_folder, path) = file();
    let store = Arc::new(connect(config(&path).max_bytes(16 << 20)));
    let many = limit(1_000).on_outage(OutageMode::Open);
    let key = |number: usize| format!("{number:0400}");
    block_on(async {
        let mut full = None;
        for batch in 0..200 {
            let keys: Vec<String> = (0..500).map(|number| key(batch * 500 + number)).collect();
            let taken = join_all(keys.iter().map(|key| take(&store, &many, key))).await;
            full = taken.into_iter().find_map(Result::err);
            if full.is_some() {
                break;
            }
        }
        let error = full.expect("the file is bounded");
        assert_eq!((error.code(), error.is_not_sent()), (Code::StoreFull, true), "{error}");
        assert_eq!(spent(&store, &many, &key(0)).await, 1, "what was charged stays");
        // No outage mode admits.
        let clock = ManualClock::at(NOW);
        let limiter = Limiter::with_clock(Arc::clone(&store), clock.clone()).build();
        let long = "l".repeat(400_000);
        let error = limiter.check(many.charge(&long)).await.unwrap_err();
        assert_eq!(error.code(), Code::StoreFull, "{error}");
        // A month later all of it has expired.
        clock.advance(Duration::from_secs(60 * 86_400));
        let passes = async || limiter.check(many.charge(&long)).await.is_ok();
        let mut attempts = 0;
        while !passes().await {
            attempts += 1;
            assert!(attempts < 10_000, "nothing was reclaimed");
        }
    });
}

/// SQLite ignores what lies behind a damaged part of its log, and says nothing.
#[test]
fn commits_that_a_damaged_log_has_lost_are_counted() {
    let (folder, path) = file();
    let (store, many) = (open(&path), limit(1_000));
    block_on(async {
        for number in 0..50 {
            assert!(take(&store, &many, &number.to_string()).await.unwrap());
        }
    });
    for (name, damage) in [("whole.db", 0), ("damaged.db", 1)] {
        // What a crash leaves.
        let copy = folder.path().join(name);
        fs::copy(&path, &copy).unwrap();
        let mut log = fs::read(format!("{}-wal", path.display())).unwrap();
        let middle = log.len() / 2;
        log[middle] ^= damage;
        fs::write(format!("{}-wal", copy.display()), log).unwrap();
        let reopened = open(&copy);
        let lost = reopened.lost_commits();
        assert_eq!(lost > 0, damage > 0, "{lost} commits");
        let left = block_on(spent(&reopened, &many, "49"));
        assert_eq!(left, u64::from(damage == 0), "what was charged last");
    }
    assert_eq!(store.lost_commits(), 0);
}

/// Contention must never look like an outage: an attacker can cause it.
#[test]
fn a_file_that_stays_busy_is_a_conflict_and_charges_nothing() {
    let (_folder, path) = file();
    let store = connect(Config::new(&path).lock_timeout(Duration::from_millis(20)));
    let many = limit(1_000);
    let holder = sql(&path);
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    block_on(async {
        let error = take(&store, &many, "a").await.unwrap_err();
        assert_eq!((error.code(), error.is_not_sent()), (Code::ConflictExhausted, true), "{error}");
        let error = store.reset(many.key("a"), CallContext::at(NOW)).await.unwrap_err();
        assert_eq!(error.code(), Code::ConflictExhausted, "{error}");
        let error = store.sweep(NOW).await.unwrap_err();
        assert_eq!(error.code(), Code::ConflictExhausted, "{error}");
        assert_eq!(spent(&store, &many, "a").await, 0);
        holder.execute_batch("ROLLBACK").unwrap();
        let with_long_timeouts = open(&path);
        assert!(take(&with_long_timeouts, &many, "a").await.unwrap());
        assert_eq!(spent(&store, &many, "a").await, 1);
    });
}

/// The deadline of the limiter may expire before that. A caller that waits for the file is never
/// admitted by an outage mode, and is not charged.
#[test]
fn contention_for_the_file_is_never_an_outage() {
    let (_folder, path) = file();
    let store = Arc::new(open(&path));
    let many = limit(1_000).on_outage(OutageMode::Open);
    let holder = sql(&path);
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let clock = ManualClock::at(NOW);
    let limiter = Limiter::with_clock(Arc::clone(&store), clock.clone()).build();
    block_on(async {
        let mut one = Box::pin(limiter.check(many.charge("a")));
        start(one.as_mut()).await;
        contention::until_held_up(&store, many.charge("a"), NOW).await;
        clock.advance(Duration::from_secs(1));
        assert_eq!(one.await.unwrap_err().code(), Code::ConflictExhausted);
        assert_eq!((limiter.stats().degraded_open, limiter.stats().store_failures), (0, 0));
        holder.execute_batch("ROLLBACK").unwrap();
        assert!(take(&store, &many, "a").await.unwrap());
        assert_eq!(
            spent(&store, &many, "a").await,
            1,
            "a caller whose deadline expired was charged"
        );
    });
}

/// A process that waits for the write lock holds the fairness lock, so that no other process
/// overtakes it.
#[test]
fn the_fairness_lock_orders_processes() {
    let (_folder, path) = file();
    let store = open(&path);
    let many = limit(1_000);
    assert!(block_on(take(&store, &many, "a")).unwrap());
    let turn = File::options().write(true).open(format!("{}-turn", path.display())).unwrap();
    let holder = sql(&path);
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    block_on(async {
        let mut waiting = Box::pin(take(&store, &many, "a"));
        start(waiting.as_mut()).await;
        let is_taken = || match turn.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(()),
            other => Err(Error::new(format!("{other:?}, then {:?}", turn.unlock()))),
        };
        wait::until_ok(TEST_TIMEOUT, is_taken).unwrap();
        holder.execute_batch("ROLLBACK").unwrap();
        assert!(waiting.await.unwrap());
        // It was released, and no process writes without it.
        turn.lock().unwrap();
        let hasty = Config::new(&path).lock_timeout(Duration::from_millis(20));
        let error = take(&connect(hasty), &many, "a").await.unwrap_err();
        assert_eq!(error.code(), Code::ConflictExhausted, "{error}");
        turn.unlock().unwrap();
        assert!(take(&store, &many, "a").await.unwrap());
    });
}

#[test]
fn paths_that_cannot_be_used_are_refused_by_name() {
    let (folder, path) = file();
    let missing = folder.path().join("missing").join("limits.db");
    for bad in ["".as_ref(), ":memory:".as_ref()] {
        assert_eq!(Sqlite::open(config(bad)).unwrap_err().field(), Some("path"));
    }
    for bad in [missing.as_path(), folder.path(), "".as_ref(), ":memory:".as_ref()] {
        let error = block_on(Sqlite::connect(config(bad))).unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("path")), "{error}");
    }
    fs::write(&path, "this is no database, but it is long enough to look like one".repeat(20))
        .unwrap();
    let error = block_on(Sqlite::connect(config(&path))).unwrap_err();
    assert_eq!(error.code(), Code::CorruptState, "{error}");
}

/// Opening does not wait. The file is opened at the first call, and again after it has failed.
#[test]
fn a_file_that_can_be_opened_later_is_used_then() {
    let (folder, _) = file();
    let missing = folder.path().join("missing");
    let path = missing.join("limits.db");
    let store = Sqlite::open(config(&path)).unwrap();
    let single = limit(1);
    block_on(async {
        for _ in 0..2 {
            let error = take(&store, &single, "a").await.unwrap_err();
            assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("path")));
            let error = store.load(&[single.charge("a")], CallContext::at(NOW)).await.unwrap_err();
            assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("path")));
        }
        fs::create_dir(&missing).unwrap();
        assert!(take(&store, &single, "a").await.unwrap());
        assert_eq!(spent(&store, &single, "a").await, 1);
    });
}

/// A damaged value affects its own key alone, and is never read as fresh.
#[test]
fn a_damaged_value_is_refused_until_its_key_is_reset() {
    let (_folder, path) = file();
    let store = open(&path);
    let single = limit(1);
    block_on(async {
        assert!(take(&store, &single, "a").await.unwrap());
        assert!(take_once(&store, limit(9).charge("c"), "id").await.unwrap());
        // Into the tables with it.
        assert_eq!(store.sweep(NOW).await.unwrap(), 0);
        let damage = "UPDATE tollgate_limits SET value = CAST(x'FF' AS TEXT); \
                      UPDATE tollgate_once SET value = 'x'";
        sql(&path).execute_batch(damage).unwrap();
        let code = |result: tollgate_core::Result<bool>| result.unwrap_err().code();
        let both = ["a", "b"].map(|key| take(&store, &single, key));
        let [a, b] = join_all(both).await.try_into().unwrap();
        assert_eq!(code(a), Code::CorruptState);
        assert!(b.unwrap(), "it concerns another key");
        let look = store.load(&[single.charge("a")], CallContext::at(NOW)).await;
        assert_eq!(look.unwrap_err().code(), Code::CorruptState);
        assert_eq!(code(take_once(&store, limit(9).charge("c"), "id").await), Code::CorruptState);
        store.reset(single.key("a"), CallContext::at(NOW)).await.unwrap();
        assert!(take(&store, &single, "a").await.unwrap());
    });
}

/// The same in the log, for the next process that reads it.
#[test]
fn a_damaged_row_of_the_log_is_refused_until_its_key_is_reset() {
    let (_folder, path) = file();
    let single = limit(1);
    block_on(async {
        assert!(take(&open(&path), &single, "a").await.unwrap());
        let damage = "UPDATE tollgate_log_0 SET value = CAST(x'FF' AS TEXT)";
        sql(&path).execute_batch(damage).unwrap();
        let store = open(&path);
        assert_eq!(take(&store, &single, "a").await.unwrap_err().code(), Code::CorruptState);
        assert!(take(&store, &single, "b").await.unwrap(), "it concerns another key");
        store.reset(single.key("a"), CallContext::at(NOW)).await.unwrap();
        assert!(take(&store, &single, "a").await.unwrap());
        assert!(!take(&open(&path), &single, "a").await.unwrap());
    });
}

/// Missing tables are no outage: every request would be admitted.
#[test]
fn missing_tables_are_no_outage() {
    let (_folder, path) = file();
    let store = open(&path);
    let single = limit(1);
    sql(&path).execute_batch("DROP TABLE tollgate_limits").unwrap();
    block_on(async {
        let error = take(&store, &single, "a").await.unwrap_err();
        assert_eq!(error.code(), Code::ConfigInvalid, "{error}");
        let error = store.load(&[single.charge("a")], CallContext::at(NOW)).await.unwrap_err();
        assert_eq!(error.code(), Code::ConfigInvalid, "{error}");
        // A repair needs no restart.
        let make = "CREATE TABLE tollgate_limits (key BLOB PRIMARY KEY, value TEXT NOT NULL, \
                    expires INTEGER NOT NULL) STRICT, WITHOUT ROWID";
        sql(&path).execute_batch(make).unwrap();
        assert!(take(&store, &single, "a").await.unwrap());
        assert_eq!(spent(&store, &single, "a").await, 1);
    });
}

#[test]
fn any_text_is_a_key_and_an_id() {
    let (_folder, path) = file();
    let store = open(&path);
    let (single, many) = (limit(1), limit(100));
    block_on(async {
        for key in ["\0", "%00", "%2500", "a\0b", "a%00b", "'; DROP TABLE x; --"] {
            assert!(take(&store, &single, key).await.unwrap(), "{key:?} met another key");
            assert!(!take(&store, &single, key).await.unwrap());
            store.reset(single.key(key), CallContext::at(NOW)).await.unwrap();
            assert_eq!(spent(&store, &single, key).await, 0);
        }
        for id in ["\0", "%00", "%2500", "'; DROP TABLE x; --"] {
            assert!(take_once(&store, many.charge("ids"), id).await.unwrap());
            assert!(take_once(&store, many.charge("ids"), id).await.unwrap());
        }
        assert_eq!(spent(&store, &many, "ids").await, 4);
        let long = "x".repeat(100_000);
        assert!(take(&store, &single, &long).await.unwrap());
        assert!(!take(&store, &single, &long).await.unwrap());
    });
}

#[test]
fn a_file_has_no_clock_and_no_charge_is_no_admission() {
    let (_folder, path) = file();
    let store = connect(config(&path).durability(Durability::Relaxed));
    assert!(store.capability().durable);
    let single = limit(1);
    let charges = [single.charge("a")];
    block_on(async {
        let error =
            store.admit(&Admission::of(&charges), CallContext::store_clock()).await.unwrap_err();
        assert_eq!(error.code(), Code::Unsupported);
        let error = store.load(&charges, CallContext::store_clock()).await.unwrap_err();
        assert_eq!(error.code(), Code::Unsupported);
        let error = store.admit(&Admission::of(&[]), CallContext::at(NOW)).await.unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::InvalidRequest, Some("charges")));
    });
}
