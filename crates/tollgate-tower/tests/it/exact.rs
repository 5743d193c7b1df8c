//! Concurrent requests are admitted exactly up to the limit, on every store.

use std::sync::Arc;

use tollgate::algorithm::Gcra;
use tollgate::redis;
use tollgate::store::{Memory, Store};
use tollgate::{Limit, Limiter, ManualClock, OutageMode, Quota};
use tollgate_test_servers::Redis;
use tollgate_testkit::ReferenceStore;
use tollgate_tower::RateLimitLayer;

use crate::support::{NOW, hello, peer, runtime};

const LIMIT: u64 = 50;
const REQUESTS: usize = 200;

/// 200 requests at once over one store.
async fn admits_exactly(store: impl Store + Clone + Send + Sync + 'static, policy: &str) {
    admits_exactly_over([store.clone(), store], policy).await;
}

/// 200 requests at once through two layers, as in two processes.
async fn admits_exactly_over(stores: [impl Store + Send + Sync + 'static; 2], policy: &str) {
    let clock = ManualClock::at(NOW);
    let node = |store| {
        let limiter = Limiter::with_clock(store, clock.clone()).build();
        // No unit comes back while the test runs, by any clock.
        let limit = Limit::new(policy, Gcra::new(Quota::per_day(LIMIT)).unwrap()).unwrap();
        let limit = limit.on_outage(OutageMode::Closed);
        hello(RateLimitLayer::new(limiter, limit, peer()).unwrap())
    };
    let [one, other] = stores.map(node);
    let nodes = [one.await, other.await];
    let requests: Vec<_> = (0..REQUESTS)
        .map(|index| {
            let node = nodes[index % 2].clone();
            tokio::spawn(async move { node.get("/").await.status().as_u16() })
        })
        .collect();
    let mut counts = std::collections::BTreeMap::<u16, usize>::new();
    for request in requests {
        *counts.entry(request.await.unwrap()).or_default() += 1;
    }
    let limit = usize::try_from(LIMIT).unwrap();
    assert_eq!(counts, [(200, limit), (429, REQUESTS - limit)].into());
}

#[test]
fn memory_admits_exactly_the_limit() {
    runtime().block_on(admits_exactly(Arc::new(Memory::new()), "exact"));
}

#[test]
fn a_store_that_waits_admits_exactly_the_limit() {
    runtime().block_on(admits_exactly(Arc::new(ReferenceStore::new()), "exact"));
}

#[test]
fn redis_admits_exactly_the_limit() {
    let redis = Redis::start().unwrap();
    runtime().block_on(async {
        // A store each, as two processes would have; they share the server.
        let store = || Arc::new(redis::Redis::open(redis.url().parse().unwrap()).unwrap());
        admits_exactly_over([store(), store()], "exact").await;
    });
}
