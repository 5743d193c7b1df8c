//! What a limiter does while a connection is lost or a node is dead: only the calls that the fault
//! takes down are decided without the store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::limiter::{Degradation, Observer};
use tollgate_core::{Limit, Limiter, OutageMode};
use tollgate_redis::Redis;
use tollgate_test_servers::{FaultProxy, Mode, Redis as Server, RedisCluster};
use tollgate_testkit::runtime::join_all;

use super::load::{SOON, month};
use super::{run, store};

/// For a busy machine: no call of a healthy server may miss its deadline.
const PATIENT: Duration = Duration::from_secs(10);
const TIMEOUTS: &str = "connect_timeout_ms=10000&reply_timeout_ms=60000";

fn limiter(url: &str) -> Limiter<Redis> {
    Limiter::builder(store(url)).deadline(PATIENT).build()
}

async fn is_decided(limiter: &Limiter<Redis>, limit: &Limit, subject: &str) -> bool {
    limiter.check(limit.charge(subject)).await.unwrap().degraded.is_none()
}

/// Calls until the store has decided `times` in a row.
async fn until_decided(limiter: &Limiter<Redis>, limit: &Limit, times: u32) {
    let (from, mut decided) = (Instant::now(), 0);
    while decided < times {
        assert!(from.elapsed() < SOON, "it does not recover");
        decided = if is_decided(limiter, limit, "shared").await { decided + 1 } else { 0 };
        tokio::task::yield_now().await;
    }
}

/// Fifty callers lose their connection at once, and call again while there is none.
#[test]
fn a_lost_connection_never_opens_the_breaker() {
    let redis = Server::start().unwrap();
    let proxy = FaultProxy::to(redis.addr()).unwrap();
    let limiter = limiter(&format!("redis://{}?{TIMEOUTS}", proxy.addr()));
    let limit = month("reset", 1_000_000).on_outage(OutageMode::Open);
    run(async {
        until_decided(&limiter, &limit, 1).await;
        for _ in 0..3 {
            // Their calls are under way when the connection ends.
            proxy.set(Mode::Hold).unwrap();
            let cut = async {
                while proxy.traffic().open == 0 {
                    tokio::task::yield_now().await;
                }
                proxy.reset().unwrap();
                proxy.set(Mode::Pass).unwrap();
            };
            let callers = (0..50).map(|_| until_decided(&limiter, &limit, 2));
            tokio::join!(join_all(callers), cut);
        }
    });
    let stats = limiter.stats();
    println!("{} calls were decided without the store", stats.degraded_open);
    assert_eq!(stats.breaker_rejections, 0, "{stats:?}");
}

/// The reasons of decisions without the store.
#[derive(Clone, Debug, Default)]
struct Reasons(Arc<Mutex<Vec<String>>>);

impl Observer for Reasons {
    fn degraded(&self, event: &Degradation<'_>) {
        self.0.lock().unwrap().push(event.reason.to_owned());
    }
}

/// A server that answers too late is told from one that does not answer.
#[test]
fn a_slow_server_is_named_slow() {
    let redis = Server::start().unwrap();
    let proxy = FaultProxy::to(redis.addr()).unwrap();
    let reasons = Reasons::default();
    let store = store(&format!("redis://{}?{TIMEOUTS}", proxy.addr()));
    let limiter = Limiter::builder(store).observer(reasons.clone()).build();
    let limit = month("slow", 1_000_000).on_outage(OutageMode::Open);
    proxy.set(Mode::Latency(Duration::from_millis(150))).unwrap();
    let is_slow = format!("{} is too slow: it answered after ", proxy.addr());
    run(async {
        let from = Instant::now();
        while !reasons.0.lock().unwrap().iter().any(|reason| reason.contains(&is_slow)) {
            assert!(from.elapsed() < SOON, "{reasons:?}");
            let charges = [limit.charge("a")];
            assert!(!is_decided(&limiter, &limit, "a").await);
            limiter.check_batch(&charges).await.into_iter().for_each(|one| drop(one.unwrap()));
        }
    });
    println!("{reasons:?}");
}

#[test]
fn a_dead_node_opens_its_own_breaker_only() {
    let cluster = RedisCluster::start(2).unwrap();
    let proxies = cluster.behind_proxies().unwrap();
    let limiter = limiter(&format!("redis-cluster://{}?{TIMEOUTS}", proxies[0].addr()));
    let limit = month("dead", 1_000_000).on_outage(OutageMode::Open);
    let owner = |subject: &str| cluster.owner_of_key(&limit.key(subject).to_text()).unwrap();
    let of_node = |node| (0..1_000).map(|n| n.to_string()).find(|name| owner(name) == node);
    let [dead, healthy] = [0, 1].map(|node| of_node(node).unwrap());
    run(async {
        assert!(is_decided(&limiter, &limit, &dead).await);
        assert!(is_decided(&limiter, &limit, &healthy).await);
        proxies[0].set(Mode::Refuse).unwrap();
        proxies[0].reset().unwrap();
        let from = Instant::now();
        while limiter.stats().breaker_rejections == 0 {
            assert!(from.elapsed() < SOON, "the breaker does not open");
            assert!(!is_decided(&limiter, &limit, &dead).await);
            assert!(is_decided(&limiter, &limit, &healthy).await);
        }
        let both = [limit.charge(&dead), limit.charge(&healthy)];
        for _ in 0..100 {
            assert!(is_decided(&limiter, &limit, &healthy).await);
            let decided = limiter.check_batch(&both).await;
            assert_eq!(decided[1].as_ref().unwrap().degraded, None);
        }
        proxies[0].set(Mode::Pass).unwrap();
        while !is_decided(&limiter, &limit, &dead).await {
            assert!(from.elapsed() < SOON, "it does not recover");
        }
    });
}
