//! What an operator is told about servers.

use tollgate_test_servers::{Redis, shared};

use super::open;

#[tokio::test]
async fn a_server_that_may_evict_counters_is_warned_of() {
    let redis = Redis::builder().max_memory(100_000_000, "allkeys-lru").start().unwrap();
    let inspection = open(&redis.url()).inspect().await.unwrap();
    let server = &inspection.servers[0];
    assert_eq!(server.address, Some(redis.addr().to_string()));
    assert_eq!(server.product.as_deref(), Some("redis"));
    assert_eq!(server.role.as_deref(), Some("master"));
    assert_eq!(server.maxmemory_bytes, Some(100_000_000));
    assert!(server.version.as_deref().unwrap().starts_with("7."), "{server:?}");
    let warnings = inspection.warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("allkeys-lru"), "{warnings:?}");
    assert!(open(&shared::redis().url()).inspect().await.unwrap().warnings().is_empty());
}

#[tokio::test]
async fn a_user_without_the_right_to_info_gets_a_warning() {
    let redis = Redis::builder().user("ada on >pw ~* +eval").start().unwrap();
    let client = open(&format!("redis://ada:pw@{}", redis.addr()));
    let inspection = client.inspect().await.unwrap();
    assert_eq!(inspection.servers[0].version, None);
    let warnings = inspection.warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("may not see"), "{warnings:?}");
}

#[tokio::test]
async fn every_node_of_a_cluster_is_inspected() {
    let cluster = shared::redis_cluster();
    let url = format!("redis-cluster://{}?connect_timeout_ms=2000", cluster.nodes()[0].addr());
    let inspection = open(&url).inspect().await.unwrap();
    let mut addresses: Vec<_> = inspection.servers.iter().map(|server| &server.address).collect();
    addresses.sort();
    let mut expected: Vec<_> =
        cluster.nodes().iter().map(|node| Some(node.addr().to_string())).collect();
    expected.sort();
    assert_eq!(addresses, expected.iter().collect::<Vec<_>>());
    assert!(inspection.warnings().is_empty(), "{:?}", inspection.warnings());
}

#[tokio::test]
async fn a_node_of_a_cluster_is_not_taken_for_a_server_alone() {
    let node = &shared::redis_cluster().nodes()[0];
    let with_long_timeouts = "?connect_timeout_ms=5000&reply_timeout_ms=5000";
    let client = open(&format!("{}{with_long_timeouts}", node.url()));
    let warnings = client.inspect().await.unwrap().warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("redis-cluster://"), "{warnings:?}");
    let alone = open(&format!("redis-cluster://{}{with_long_timeouts}", shared::redis().addr()));
    let error = alone.inspect().await.unwrap_err();
    assert!(error.is_not_sent() && error.to_string().contains("knows of no cluster"), "{error}");
}
