//! The store over its own client, on every kind of server.

mod batches;
mod cluster;
mod conformance;
mod custom;
mod damage;
mod faults;
mod load;
mod processes;

use std::future::Future;
use std::sync::LazyLock;

use tokio::runtime::Runtime;
use tollgate_redis::RedisStore;
use tollgate_redis::client::Client;
use tollgate_testkit::servers::RedisCluster;

/// One runtime for all tests: connections belong to the one that made them.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
});

/// Runs a future to its end.
pub(crate) fn run<F: Future>(future: F) -> F::Output {
    RUNTIME.block_on(future)
}

/// The URL of a whole cluster.
pub(crate) fn cluster_url(cluster: &RedisCluster) -> String {
    let nodes: Vec<String> = cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
    format!("redis-cluster://{}", nodes.join(","))
}

pub(crate) fn store(url: &str) -> RedisStore<Client> {
    let _in_runtime = RUNTIME.enter();
    RedisStore::over(Client::open(url).unwrap())
}
