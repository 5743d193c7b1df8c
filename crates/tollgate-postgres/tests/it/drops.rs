//! Callers that go away: nobody hangs, nothing is lost, and whoever left in time is not charged.

use std::pin::pin;
use std::task::Poll;

use tollgate_core::Code;
use tollgate_core::store::Store;
use tollgate_postgres::Postgres;
use tollgate_test_servers::PgVersion;
use tollgate_test_servers::shared::postgres;
use tollgate_testkit::runtime::join_all;

use crate::support::{
    block_on, client, config_in, limit, schema, spent, take, until_somebody_waits,
};

/// Polls once, so that what is asked is queued.
async fn start<F: Future>(future: std::pin::Pin<&mut F>) {
    let mut future = Some(future);
    std::future::poll_fn(|context| {
        if let Some(future) = future.take() {
            assert!(future.poll(context).is_pending());
        }
        Poll::Ready(())
    })
    .await;
}

#[test]
fn a_caller_that_leaves_before_the_write_is_not_charged_and_others_are_served() {
    block_on(async {
        let (url, schema) = (postgres(PgVersion::V15).url(), schema());
        let store = Postgres::connect(config_in(&url, &schema)).await.unwrap();
        let many = limit(1_000);
        assert!(take(&store, &many, "a").await.unwrap());
        // Somebody else holds the row, so that the round waits in its first trip.
        let holder = client(&url).await;
        holder
            .batch_execute(&format!("BEGIN; SELECT FROM {schema}.limits FOR UPDATE"))
            .await
            .unwrap();
        let leader = Box::pin(take(&store, &many, "a"));
        let mut leader = leader;
        start(leader.as_mut()).await;
        until_somebody_waits(&client(&url).await, &schema).await;
        let mut stayer = pin!(take(&store, &many, "a"));
        start(stayer.as_mut()).await;
        let mut leaver = Box::pin(take(&store, &many, "a"));
        start(leaver.as_mut()).await;
        drop(leader);
        drop(leaver);
        holder.batch_execute("ROLLBACK").await.unwrap();
        assert!(stayer.await.unwrap());
        assert_eq!(spent(&store, &many, "a").await, 2, "somebody who had left was charged");
    });
}

#[test]
fn closing_decides_what_is_queued_and_refuses_what_follows() {
    block_on(async {
        let (url, schema) = (postgres(PgVersion::V15).url(), schema());
        let store = Postgres::connect(config_in(&url, &schema)).await.unwrap();
        let many = limit(1_000);
        let mut queued: Vec<_> = (0..100).map(|_| Box::pin(take(&store, &many, "a"))).collect();
        for one in &mut queued {
            start(one.as_mut()).await;
        }
        store.close().await;
        assert!(join_all(queued).await.into_iter().all(Result::unwrap));
        let error = take(&store, &many, "a").await.unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable);
        let store = Postgres::connect(config_in(&url, &schema)).await.unwrap();
        assert_eq!(spent(&store, &many, "a").await, 100);
    });
}
