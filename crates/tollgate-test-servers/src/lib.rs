//! Real servers for tests: installed if they are missing, started on ports and in folders of their
//! own, and gone when the test is, however it ends.
//!
//! ```no_run
//! use tollgate_test_servers::{FaultProxy, Mode, Redis, Result};
//!
//! # fn main() -> Result<()> {
//! let redis = Redis::builder().password("s3cret").start()?;
//! let proxy = FaultProxy::to(redis.addr())?;
//! // ... connect a store to proxy.addr(), then lose the replies of what was applied:
//! proxy.set(Mode::DropReplies)?;
//! // ... or let the server stand still, crash, and come back at the same port:
//! redis.stop_answering()?;
//! redis.kill()?;
//! redis.restart()?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`Redis`] (also Redis 8 and Valkey), [`RedisCluster`], [`RedisSentinel`], [`Postgres`], [`DenoKv`]: servers. [`shared`]: one of
//!   a kind for all tests of a process. [`Certificates`]: for TLS.
//! - [`DynamoDb`]: an emulator of DynamoDB, or Amazon's own; [`DynamoDbGateway`] counts what it is asked,
//!   and refuses in the ways that emulators do not.
//! - [`UpstashShim`]: the REST interface of Upstash over a Redis server. [`Nginx`]: a proxy in front of others.
//! - [`Python`] and [`NodeJs`]: clients that nobody here wrote.
//! - [`FaultProxy`]: what networks do to connections, on command.
//! - [`resp`]: a small client, to look at a server past the store under test.
//! - [`Server`] and [`Recipe`]: the core. Another kind of server is one file with one recipe;
//!   [`program`] finds or installs what it runs.
//! - [`Nodes`]: the test program as several processes that share a store.
//! - [`wait`]: for what other processes do in their own time.
//!
//! No test has to clean up. A server that is dropped ends, and so does one whose test process is
//! killed: the kernel sees to it. Folders that a killed process leaves behind are removed by
//! the next one that starts a server. For Linux only.
#![cfg(target_os = "linux")]

mod certificates;
mod denokv;
mod dynamodb;
mod error;
mod family;
mod folder;
mod http;
pub mod install;
mod nginx;
mod nodes;
mod percent;
mod port;
mod postgres;
mod process;
mod proxy;
mod redis;
pub mod resp;
mod root;
mod scripts;
mod server;
pub mod shared;
mod spawner;
mod upstash;
pub mod wait;

pub use certificates::Certificates;
pub use denokv::DenoKv;
pub use dynamodb::{DynamoDb, DynamoDbGateway, Refusal, Tally};
pub use error::{Error, Result};
pub use folder::Folder;
pub use install::program;
pub use nginx::Nginx;
pub use nodes::{Node, Nodes};
pub use port::Port;
pub use postgres::{PgVersion, Postgres, PostgresBuilder};
pub use process::{Launch, Signal, User};
pub use proxy::{FaultProxy, Mode, Traffic};
pub use redis::{
    Redis, RedisBuilder, RedisCluster, RedisClusterBuilder, RedisSentinel, RedisSentinelBuilder,
    SlotMove,
};
pub use scripts::{NodeJs, Python};
pub use server::{Place, Recipe, Server};
pub use upstash::UpstashShim;

/// Builds the servers that are built from source, which takes minutes the first time: a test that
/// needs one would otherwise seem to hang.
///
/// # Errors
/// When one cannot be downloaded or does not build.
pub fn prepare() -> Result<()> {
    dynamodb::dynoxide()?;
    denokv::program()?;
    Ok(())
}

/// The guide, whose example must compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/test-servers.md")]
struct Guide;
