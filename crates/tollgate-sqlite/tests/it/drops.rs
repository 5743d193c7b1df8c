//! Cancelled callers: no other caller hangs, nothing is lost, and one that is cancelled in time is
//! not charged.

use std::pin::pin;

use tollgate_core::Code;
use tollgate_core::store::{Bounds, CallContext, Store, WhenIdsFull};

use crate::support::{
    NOW, block_on, config, connect, file, join_all, limit, open, spent, sql, start, take, take_once,
};

#[test]
fn a_caller_that_is_cancelled_before_its_round_begins_is_not_charged() {
    let (_folder, path) = file();
    let store = open(&path);
    let many = limit(1_000);
    // Another connection holds the write lock, so that no round can begin.
    let holder = sql(&path);
    block_on(async {
        assert!(take(&store, &many, "a").await.unwrap());
        holder.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut first = Box::pin(take(&store, &many, "a"));
        start(first.as_mut()).await;
        let mut waiting = pin!(take(&store, &many, "a"));
        start(waiting.as_mut()).await;
        let mut cancelled = Box::pin(take(&store, &many, "a"));
        start(cancelled.as_mut()).await;
        drop(first);
        drop(cancelled);
        assert_eq!(spent(&store, &many, "a").await, 1, "a read does not wait");
        holder.execute_batch("ROLLBACK").unwrap();
        assert!(waiting.await.unwrap());
        assert_eq!(spent(&store, &many, "a").await, 2, "a cancelled caller was charged");
    });
}

#[test]
fn closing_serves_queued_calls_and_refuses_later_ones() {
    let (_folder, path) = file();
    let store = open(&path);
    let many = limit(1_000);
    block_on(async {
        let mut queued: Vec<_> = (0..100).map(|_| Box::pin(take(&store, &many, "a"))).collect();
        for one in &mut queued {
            start(one.as_mut()).await;
        }
        store.close().await;
        assert!(join_all(queued).await.into_iter().all(Result::unwrap));
        let error = take(&store, &many, "a").await.unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable);
        store.close().await;
        assert_eq!(spent(&open(&path), &many, "a").await, 100);
    });
}

/// The reader ends while the writer opens the file: SQLite locks a file while its last connection
/// is closed.
#[test]
fn closing_before_the_writer_has_opened_the_file_loses_nothing() {
    let (_folder, path) = file();
    let many = limit(1_000);
    block_on(async {
        for round in 1..=100 {
            let store = open(&path);
            let mut queued = Box::pin(take(&store, &many, "a"));
            start(queued.as_mut()).await;
            store.close().await;
            assert!(queued.await.unwrap(), "round {round}");
        }
        assert_eq!(spent(&open(&path), &many, "a").await, 100);
    });
}

#[test]
fn a_store_that_is_dropped_loses_nothing() {
    let (_folder, path) = file();
    let many = limit(1_000);
    let again = block_on(async {
        let store = open(&path);
        assert!(take(&store, &many, "a").await.unwrap());
        drop(store);
        open(&path)
    });
    assert_eq!(block_on(spent(&again, &many, "a")), 1);
}

/// A round may contain a reset and a request id for which there is no room: then the logs are
/// compacted before the reset is written.
#[test]
fn a_reset_is_not_lost_when_room_is_made_for_request_ids() {
    let (_folder, path) = file();
    let store = connect(config(&path).max_request_ids(1));
    let many = limit(1_000).bounded(Bounds::new().when_ids_full(WhenIdsFull::Refuse));
    let holder = sql(&path);
    block_on(async {
        assert!(take_once(&store, many.charge("id"), "the only one").await.unwrap());
        for round in 0..20 {
            assert!(take(&store, &many, "a").await.unwrap());
            // Another connection holds the write lock, so that they are in one round.
            holder.execute_batch("BEGIN IMMEDIATE").unwrap();
            let mut first = Box::pin(take(&store, &many, "b"));
            start(first.as_mut()).await;
            let mut reset = Box::pin(store.reset(many.key("a"), CallContext::at(NOW)));
            let mut refused = Box::pin(take_once(&store, many.charge("id"), "one too many"));
            start(reset.as_mut()).await;
            start(refused.as_mut()).await;
            holder.execute_batch("ROLLBACK").unwrap();
            first.await.unwrap();
            reset.await.unwrap();
            assert_eq!(refused.await.unwrap_err().code(), Code::QueueFull);
            assert_eq!(spent(&store, &many, "a").await, 0, "round {round}");
        }
    });
}
