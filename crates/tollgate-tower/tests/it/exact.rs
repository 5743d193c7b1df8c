//! Exactly as many as the limit says, whatever comes at once, on every store.

use tollgate::store::{Memory, Store};
use tollgate::{Limiter, ManualClock};
use tollgate_testkit::ReferenceStore;
use tollgate_tower::RateLimitLayer;

use crate::support::{NOW, hello, peer, per_minute, runtime};

const LIMIT: u64 = 50;
const REQUESTS: usize = 200;

/// 200 requests at once through two layers over one store, which stand for two nodes.
async fn admits_exactly(store: impl Store + Clone + Send + Sync + 'static, policy: &str) {
    let clock = ManualClock::at(NOW);
    let node = || {
        let limiter = Limiter::with_clock(store.clone(), clock.clone()).build();
        let limit = per_minute(policy, LIMIT);
        hello(RateLimitLayer::new(limiter, limit, peer()).unwrap())
    };
    let nodes = [node().await, node().await];
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
    runtime().block_on(admits_exactly(std::sync::Arc::new(Memory::new()), "exact"));
}

#[test]
fn a_store_that_waits_admits_exactly_the_limit() {
    runtime().block_on(admits_exactly(std::sync::Arc::new(ReferenceStore::new()), "exact"));
}
