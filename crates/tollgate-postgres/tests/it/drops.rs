//! Cancelled callers: no other caller hangs, nothing is lost, and one that is cancelled in time is
//! not charged.

use std::pin::pin;
use std::task::Poll;

use tollgate_core::Code;
use tollgate_core::store::Store;
use tollgate_postgres::Postgres;
use tollgate_test_servers::PgVersion;
use tollgate_test_servers::shared::postgres;
use tollgate_testkit::runtime::join_all;

use crate::support::{
    block_on, client, config_in, limit, schema, spent, take, until_a_session_waits,
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
fn a_caller_that_is_cancelled_before_the_write_is_not_charged() {
    block_on(async {
        let (url, schema) = (postgres(PgVersion::V15).url(), schema());
        let store = Postgres::connect(config_in(&url, &schema)).await.unwrap();
        let many = limit(1_000);
        assert!(take(&store, &many, "a").await.unwrap());
        // Another session holds the row, so that the round waits in its first round trip.
        let holder = client(&url).await;
        holder
            .batch_execute(&format!("BEGIN; SELECT FROM {schema}.limits FOR UPDATE"))
            .await
            .unwrap();
        let leader = Box::pin(take(&store, &many, "a"));
        let mut leader = leader;
        start(leader.as_mut()).await;
        until_a_session_waits(&client(&url).await, &schema).await;
        let mut waiting = pin!(take(&store, &many, "a"));
        start(waiting.as_mut()).await;
        let mut cancelled = Box::pin(take(&store, &many, "a"));
        start(cancelled.as_mut()).await;
        drop(leader);
        drop(cancelled);
        holder.batch_execute("ROLLBACK").await.unwrap();
        assert!(waiting.await.unwrap());
        assert_eq!(spent(&store, &many, "a").await, 2, "a cancelled caller was charged");
    });
}

#[test]
fn closing_serves_queued_calls_and_refuses_later_ones() {
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
