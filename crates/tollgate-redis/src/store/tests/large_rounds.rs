//! Many callers of one key that call again as soon as they are answered share few calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Limit, Quota, algorithm as a};

use super::Plain;
use super::drops::Slow;
use crate::Redis;
use crate::transport::Sharing;

const CALLERS: u64 = 48;
const TIMES: u64 = 20;

/// One thread: the order in which tasks run is always the same.
#[tokio::test]
async fn callers_that_were_just_answered_are_in_time_for_the_next_round() {
    let sent = Arc::new(AtomicU64::new(0));
    let (plain, sharing) = (Plain::connect(), Sharing::AnyKeys);
    let spawner = Some((|work| drop(tokio::spawn(work))) as crate::transport::Spawner);
    let store = Redis::over(Slow { plain, sent: sent.clone(), sharing, spawner });
    let quota = Quota::new(CALLERS * TIMES, std::time::Duration::from_secs(86_400));
    let limit = Arc::new(Limit::new("large-rounds", a::Gcra::new(quota).unwrap()).unwrap());
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (store, limit) = (store.clone(), limit.clone());
            tokio::spawn(async move {
                for _ in 0..TIMES {
                    let charges = [limit.charge("shared")];
                    store
                        .admit(&Admission::of(&charges), CallContext::store_clock())
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let calls = sent.load(Ordering::SeqCst);
    eprintln!("{calls} calls for {CALLERS} callers that check {TIMES} times each");
    assert!(calls <= 2 * TIMES + 8, "{calls} calls");
}
