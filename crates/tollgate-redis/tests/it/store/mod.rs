//! The store over its own client, on every kind of server.

mod batches;
mod cluster;
mod conformance;
mod custom;
mod damage;
mod faults;
mod halfway;
mod load;
mod moves;
mod outages;
mod processes;
mod silence;
mod slots;
mod turns;
mod waiting;

use std::future::Future;
use std::sync::LazyLock;

use tokio::runtime::Runtime;
use tollgate_redis::Redis;
use tollgate_test_servers::{RedisBuilder, RedisCluster};

/// Only what the documentation says that a user needs.
pub(crate) const USER: &str = "limiter on >pa55 ~* +ping +select +client|setname +eval +evalsha \
    +time +get +set +del +lrange +lindex +llen +lset +ltrim +rpush +pexpire";
/// What it needs besides in a cluster.
const IN_CLUSTER: &str = "+cluster|slots +asking";

/// One runtime for all tests: connections belong to the one that made them.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
});

/// Runs a future to its end.
pub(crate) fn run<F: Future>(future: F) -> F::Output {
    RUNTIME.block_on(future)
}

/// Runs a future to its end on one thread: nothing happens between two looks at what is polled by
/// hand. Its connections end with it.
pub(crate) fn on_one_thread<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(future)
}

/// The URL of a whole cluster.
pub(crate) fn cluster_url(cluster: &RedisCluster) -> String {
    let nodes: Vec<String> = cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
    format!("redis-cluster://{}", nodes.join(","))
}

/// Masters that speak TLS only, and a user who may do what is needed.
pub(crate) fn encrypted_cluster(masters: usize) -> RedisCluster {
    let user = format!("{USER} {IN_CLUSTER}");
    RedisBuilder::default().tls().user(&user).start_cluster(masters).unwrap()
}

/// The URL of one node of such a cluster: the others are found. Unoptimised cryptography on a busy
/// machine takes its time.
pub(crate) fn encrypted_cluster_url(cluster: &RedisCluster) -> String {
    let addr = cluster.nodes()[0].addr();
    let ca = cluster.certificates().unwrap().authority();
    let ca = ca.display();
    let timeouts = "connect_timeout_ms=10000&reply_timeout_ms=10000";
    format!("rediss-cluster://limiter:pa55@{addr}?ca={ca}&{timeouts}")
}

pub(crate) fn store(url: &str) -> Redis {
    let _in_runtime = RUNTIME.enter();
    Redis::open(url.parse().unwrap()).unwrap()
}
