//! One server of each kind for all tests of a process, started by the first test that uses it.
//!
//! For tests that use their own keys or databases and leave the server running. A static is never
//! dropped: the kernel ends these servers with the process.

use std::sync::OnceLock;

use super::{DenoKv, DynamoDb, PgVersion, Postgres, Redis, RedisCluster, Result};

/// Functions that start a server once. They panic when it cannot be installed or started.
macro_rules! shared {
    ($($(#[$doc:meta])* $name:ident: $server:ty = $start:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Panics
            /// When it cannot be installed or started, in every test that uses it.
            pub fn $name() -> &'static $server {
                static SHARED: OnceLock<Result<$server>> = OnceLock::new();
                started(SHARED.get_or_init(|| $start))
            }
        )*
    };
}

shared! {
    /// The Redis server of this process.
    redis: Redis = Redis::start();
    /// The Redis 8 server of this process.
    redis_8: Redis = Redis::builder().redis_8().start();
    /// The cluster of this process, of three masters.
    redis_cluster: RedisCluster = RedisCluster::start(3);
    /// The cluster of Redis 8 of this process, of three masters.
    redis_8_cluster: RedisCluster = Redis::builder().redis_8().start_cluster(3);
    /// The Deno KV server of this process.
    denokv: DenoKv = DenoKv::start();
    /// The DynamoDB of this process. Each test makes its own table.
    dynamodb: DynamoDb = DynamoDb::start();
    postgres_15: Postgres = Postgres::start(PgVersion::V15);
    postgres_18: Postgres = Postgres::start(PgVersion::V18);
}

/// The PostgreSQL server of this process, of one version. Each test makes its own database:
/// [`Postgres::fresh_database`].
///
/// # Panics
/// When it cannot be installed or started, in every test that uses it.
#[must_use]
pub fn postgres(version: PgVersion) -> &'static Postgres {
    match version {
        PgVersion::V15 => postgres_15(),
        PgVersion::V18 => postgres_18(),
    }
}

#[expect(clippy::panic, reason = "a test that needs a server fails without one, with the reason")]
fn started<T>(server: &'static Result<T>) -> &'static T {
    match server {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    }
}
