//! Callers that go away: nobody hangs, nothing is lost, and whoever left in time is not charged.

use std::pin::pin;

use tollgate_core::Code;
use tollgate_core::store::{CallContext, Store};

use tollgate_sqlite::Sqlite;

use crate::support::{
    NOW, block_on, config, file, join_all, limit, open, spent, sql, start, take, take_once,
};

#[test]
fn a_caller_that_leaves_before_the_round_begins_is_not_charged_and_others_are_served() {
    let (_folder, path) = file();
    let store = open(&path);
    let many = limit(1_000);
    // Somebody else holds the file, so that no round can begin.
    let holder = sql(&path);
    block_on(async {
        assert!(take(&store, &many, "a").await.unwrap());
        holder.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut first = Box::pin(take(&store, &many, "a"));
        start(first.as_mut()).await;
        let mut stayer = pin!(take(&store, &many, "a"));
        start(stayer.as_mut()).await;
        let mut leaver = Box::pin(take(&store, &many, "a"));
        start(leaver.as_mut()).await;
        drop(first);
        drop(leaver);
        assert_eq!(spent(&store, &many, "a").await, 1, "a look waits for nobody");
        holder.execute_batch("ROLLBACK").unwrap();
        assert!(stayer.await.unwrap());
        assert_eq!(spent(&store, &many, "a").await, 2, "somebody who had left was charged");
    });
}

#[test]
fn closing_decides_what_is_queued_and_refuses_what_follows() {
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

#[test]
fn a_store_that_is_dropped_writes_what_it_was_asked() {
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

/// A round may hold a reset and a request id for which there is no room, so that everything is folded
/// into the tables to make some.
#[test]
fn a_reset_is_not_lost_when_room_is_made_for_request_ids() {
    let (_folder, path) = file();
    let store = Sqlite::open(config(&path).max_request_ids(1)).unwrap();
    let many = limit(1_000);
    let holder = sql(&path);
    block_on(async {
        assert!(take_once(&store, many.charge("id"), "the only one").await.unwrap());
        for round in 0..20 {
            assert!(take(&store, &many, "a").await.unwrap());
            // Somebody else holds the file, so that they meet in one round.
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
