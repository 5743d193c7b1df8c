//! Callers that go away: nobody hangs, nothing is lost, and whoever left in time is not charged.

use std::pin::pin;

use tollgate_core::Code;
use tollgate_core::store::Store;

use crate::support::{block_on, file, join_all, limit, open, spent, sql, start, take};

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
