//! A store with real servers, which faults are caused on.

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;

use tokio::task::block_in_place;
use tollgate_test_servers::{
    DenoKv, DynamoDb, FaultProxy, Folder, Mode, PgVersion, Postgres, Redis, RedisCluster,
    RedisSentinel, Server,
};

use crate::Result;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// One Redis server, which writes every command to disk before its reply.
    Redis,
    /// A master, a replica and three sentinels.
    Sentinel,
    /// Three masters, which write as the one does.
    Cluster,
    /// One server.
    Postgres,
    /// A file.
    Sqlite,
    /// An emulator, with its table in memory.
    DynamoDb,
    /// The self-hosted server.
    DenoKv,
}

impl Store {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Redis,
        Self::Sentinel,
        Self::Cluster,
        Self::Postgres,
        Self::Sqlite,
        Self::DynamoDb,
        Self::DenoKv,
    ];

    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Sentinel => "redis-sentinel",
            Self::Cluster => "redis-cluster",
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
            Self::DynamoDb => "dynamodb",
            Self::DenoKv => "denokv",
        }
    }
}

/// The servers of a store. One behind proxies is slower to refuse connections, so faults of a
/// process are caused without them.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) servers: Servers,
    proxies: Vec<FaultProxy>,
    /// Of the first master of a cluster.
    pub(crate) replica: Option<Redis>,
}

/// The servers, by the kind of store.
#[derive(Debug)]
pub(crate) enum Servers {
    Redis(Redis),
    Sentinel(RedisSentinel),
    Cluster(RedisCluster),
    Postgres(Postgres),
    Sqlite(Folder),
    DynamoDb(DynamoDb),
    DenoKv(DenoKv),
}

impl Backend {
    /// Starts the servers; clients are behind proxies if asked for.
    pub(crate) fn start(store: Store, behind_proxies: bool) -> Result<Self> {
        let servers = match store {
            Store::Redis => Servers::Redis(Redis::builder().durable().start()?),
            Store::Sentinel => Servers::Sentinel(RedisSentinel::start()?),
            Store::Cluster => Servers::Cluster(cluster()?),
            Store::Postgres => Servers::Postgres(Postgres::start(PgVersion::V18)?),
            Store::Sqlite => Servers::Sqlite(Folder::new("faults")?),
            Store::DynamoDb => Servers::DynamoDb(DynamoDb::start()?),
            Store::DenoKv => Servers::DenoKv(DenoKv::start()?),
        };
        let mut backend = Self { servers, proxies: Vec::new(), replica: None };
        if behind_proxies {
            backend.proxies = match &backend.servers {
                Servers::Cluster(cluster) => cluster.behind_proxies()?,
                _ => vec![FaultProxy::to(backend.server()?.addr())?],
            };
        }
        Ok(backend)
    }

    /// Adds a replica of the first master to a cluster; sentinels have one.
    pub(crate) fn add_replica(&mut self) -> Result<()> {
        if let Servers::Cluster(cluster) = &self.servers {
            self.replica = Some(cluster.start_replica(0)?);
        }
        Ok(())
    }

    /// The path of a SQLite file.
    pub(crate) fn file(&self) -> Result<PathBuf> {
        match &self.servers {
            Servers::Sqlite(folder) => Ok(folder.path().join("limits.db")),
            _ => Err("the store is not a file".into()),
        }
    }

    /// The address for the configuration.
    pub(crate) fn url(&self) -> Result<String> {
        let addr = || -> Result<SocketAddr> {
            let proxy = self.proxies.first().map(FaultProxy::addr);
            proxy.map_or_else(|| Ok(self.server()?.addr()), Ok)
        };
        Ok(match &self.servers {
            Servers::Redis(_) => format!("redis://{}", addr()?),
            Servers::Sentinel(sentinel) => {
                let addrs = sentinel.sentinels().iter().map(|server| server.addr().to_string());
                let addrs: Vec<String> = addrs.collect();
                format!("redis-sentinel://{}/{}", addrs.join(","), sentinel.name())
            }
            Servers::Cluster(cluster) => {
                let nodes = cluster.nodes().iter().map(|node| node.addr().to_string());
                let proxies = self.proxies.iter().map(|proxy| proxy.addr().to_string());
                let addrs: Vec<String> =
                    if self.proxies.is_empty() { nodes.collect() } else { proxies.collect() };
                format!("redis-cluster://{}", addrs.join(","))
            }
            Servers::Postgres(_) => format!("postgres://postgres@{}/postgres", addr()?),
            Servers::Sqlite(_) => format!("sqlite:{}", self.file()?.display()),
            Servers::DynamoDb(server) => {
                let [own, proxy] =
                    [server.addr(), addr()?].map(|addr| format!("%3A{}", addr.port()));
                server.url("faults").replace(&own, &proxy)
            }
            Servers::DenoKv(server) => server.url_at(addr()?),
        })
    }

    /// The process that faults are caused on: the master, the first node.
    pub(crate) fn server(&self) -> Result<&Server> {
        Ok(match &self.servers {
            Servers::Redis(server) => server.deref(),
            Servers::Sentinel(sentinel) => sentinel.master()?.deref(),
            Servers::Cluster(cluster) => cluster.nodes().first().ok_or("no nodes")?.deref(),
            Servers::Postgres(server) => server.deref(),
            Servers::Sqlite(_) => return Err("SQLite has no server".into()),
            Servers::DynamoDb(server) => server.deref(),
            Servers::DenoKv(server) => server.deref(),
        })
    }

    /// The Redis server that commands are sent to.
    pub(crate) fn redis(&self) -> Result<&Redis> {
        match &self.servers {
            Servers::Redis(server) => Ok(server),
            _ => Err("the store is not one Redis server".into()),
        }
    }

    /// Changes the mode of all proxies.
    pub(crate) fn set(&self, mode: Mode) -> Result<()> {
        for proxy in &self.proxies {
            proxy.set(mode)?;
        }
        Ok(())
    }

    /// Resets all connections.
    pub(crate) fn reset(&self) -> Result<()> {
        for proxy in &self.proxies {
            proxy.reset()?;
        }
        Ok(())
    }
}

/// Starts the servers of a store once, so that what is not installed is downloaded or built before
/// anything is measured: a first build takes minutes.
///
/// # Errors
/// When it cannot be installed, or does not start.
pub fn install(store: Store) -> Result<()> {
    block_in_place(|| Backend::start(store, false)).map(drop)
}

/// Masters that serve their keys while another one is down, and write every command to disk before
/// its reply.
fn cluster() -> Result<RedisCluster> {
    let cluster = Redis::builder().durable().start_cluster(3)?;
    for node in cluster.nodes() {
        let command = ["CONFIG", "SET", "cluster-require-full-coverage", "no"];
        node.client()?.call(&command)?.ok()?;
    }
    Ok(cluster)
}
