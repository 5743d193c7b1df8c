//! Real servers for tests: installed if they are missing, started with their own ports and folders,
//! and stopped when the test process ends, however it ends.
//!
//! ```no_run
//! use tollgate_test_servers::{FaultProxy, Mode, Redis, Result};
//!
//! # fn main() -> Result<()> {
//! let redis = Redis::builder().password("s3cret").start()?;
//! let proxy = FaultProxy::to(redis.addr())?;
//! // ... connect a store to proxy.addr(), then drop the replies of applied commands:
//! proxy.set(Mode::DropReplies)?;
//! // ... or freeze the server, kill it, and restart it at the same port:
//! redis.stop_answering()?;
//! redis.kill()?;
//! redis.restart()?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`Redis`] (also Redis 8 and Valkey), [`RedisCluster`], [`RedisSentinel`], [`Postgres`],
//!   [`DenoKv`]: servers. [`shared`]: one of a kind for all tests of a process. [`Certificates`]:
//!   for TLS.
//! - [`DynamoDb`]: an emulator of DynamoDB, or Amazon's own; [`DynamoDbGateway`] counts requests,
//!   and refuses them in ways that emulators do not.
//! - [`workerd`]: builds a Worker, and runs it in the runtime of Cloudflare.
//! - [`UpstashShim`]: the REST interface of Upstash over a Redis server. [`Nginx`]: a proxy in
//!   front of others.
//! - [`Python`] and [`NodeJs`]: third-party clients.
//! - [`FaultProxy`]: faults of a network, on command.
//! - [`in_machine_copy`]: a copy of this machine's files, to install packages in.
//! - [`resp`]: a small client, to inspect a server without the store under test.
//! - [`Server`] and [`ServerSpec`]: the core. Another kind of server is one file with one spec;
//!   [`program`] finds or installs what it runs.
//! - [`TestProcesses`]: the test program as several processes that share a store.
//! - [`wait`]: waits for other processes.
//!
//! No test has to clean up. A server ends when it is dropped; if the test process is killed, the
//! kernel kills its servers. The next process that starts a server removes the folders that a
//! killed process left. For Linux only.
#![cfg(target_os = "linux")]

mod certificates;
mod denokv;
mod dynamodb;
mod error;
mod folder;
mod http;
mod http_server;
pub mod install;
mod machine_copy;
mod nginx;
mod percent;
mod port;
mod postgres;
mod process;
mod process_tree;
mod proxy;
mod redis;
pub mod resp;
mod root;
mod server;
pub mod shared;
mod small_disk;
mod spawner;
mod test_processes;
mod upstash;
pub mod wait;
pub mod workerd;

pub use certificates::Certificates;
pub use denokv::DenoKv;
pub use dynamodb::{DynamoDb, DynamoDbGateway, Refusal, Tally};
pub use error::{Error, Result};
pub use folder::Folder;
pub use install::{NodeJs, Python, program};
pub use machine_copy::in_machine_copy;
pub use nginx::Nginx;
pub use port::Port;
pub use postgres::{PgVersion, Postgres, PostgresBuilder};
pub use process::server_command;
pub use proxy::{FaultProxy, Mode, Traffic};
pub use redis::{Redis, RedisBuilder, RedisCluster, RedisSentinel, SlotMove};
pub use server::{Resources, Server, ServerSpec};
pub use small_disk::on_small_disk;
pub use test_processes::{TestProcess, TestProcesses};
pub use upstash::UpstashShim;

/// Builds the servers and tools that are published as source only. The first build takes minutes,
/// in which a test would seem to hang.
///
/// # Errors
/// When one cannot be downloaded or does not build.
pub fn prepare() -> Result<()> {
    dynamodb::dynoxide()?;
    denokv::program()?;
    workerd::prepare()
}

/// The guide, whose example must compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/test-servers.md")]
struct Guide;
