//! One server of a kind for all tests of a process, started by the first that asks.
//!
//! For tests that keep to keys of their own and leave the server running. Nothing drops a static,
//! so the kernel ends these when the process does.

use std::sync::OnceLock;

use super::{DenoKv, DynamoDb, PgVersion, Postgres, Redis, RedisCluster, Result};

/// The Redis server of this process.
///
/// # Panics
/// When it cannot be installed or started, in every test that asks.
pub fn redis() -> &'static Redis {
    static SHARED: OnceLock<Result<Redis>> = OnceLock::new();
    started(SHARED.get_or_init(Redis::start))
}

/// The Redis 8 server of this process.
///
/// # Panics
/// When it cannot be downloaded or started, in every test that asks.
pub fn redis_8() -> &'static Redis {
    static SHARED: OnceLock<Result<Redis>> = OnceLock::new();
    started(SHARED.get_or_init(|| Redis::builder().redis_8().start()))
}

/// The DynamoDB of this process. Make a table for each test.
///
/// # Panics
/// When it cannot be built or started, in every test that asks.
pub fn dynamodb() -> &'static DynamoDb {
    static SHARED: OnceLock<Result<DynamoDb>> = OnceLock::new();
    started(SHARED.get_or_init(DynamoDb::start))
}

/// The cluster of this process, of three masters.
///
/// # Panics
/// When it cannot be installed or started, in every test that asks.
pub fn redis_cluster() -> &'static RedisCluster {
    static SHARED: OnceLock<Result<RedisCluster>> = OnceLock::new();
    started(SHARED.get_or_init(|| RedisCluster::start(3)))
}

/// The cluster of Redis 8 of this process, of three masters.
///
/// # Panics
/// When it cannot be downloaded or started, in every test that asks.
pub fn redis_8_cluster() -> &'static RedisCluster {
    static SHARED: OnceLock<Result<RedisCluster>> = OnceLock::new();
    started(SHARED.get_or_init(|| RedisCluster::builder().redis_8().start(3)))
}

/// The Deno KV server of this process.
///
/// # Panics
/// When it cannot be built or started, in every test that asks.
pub fn denokv() -> &'static DenoKv {
    static SHARED: OnceLock<Result<DenoKv>> = OnceLock::new();
    started(SHARED.get_or_init(DenoKv::start))
}

/// The PostgreSQL server of this process, of one version. Make a database for each test:
/// [`Postgres::fresh_database`].
///
/// # Panics
/// When it cannot be installed or started, in every test that asks.
#[must_use]
pub fn postgres(version: PgVersion) -> &'static Postgres {
    static V15: OnceLock<Result<Postgres>> = OnceLock::new();
    static V18: OnceLock<Result<Postgres>> = OnceLock::new();
    let shared = match version {
        PgVersion::V15 => &V15,
        PgVersion::V18 => &V18,
    };
    started(shared.get_or_init(|| Postgres::start(version)))
}

#[expect(clippy::panic, reason = "a test that needs a server fails without one, and says why")]
fn started<T>(server: &'static Result<T>) -> &'static T {
    match server {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    }
}
