//! The Redis client of the store.
//!
//! The store runs over any [`Transport`]; this client is one, and the store can be read without it.
//! It exists for four properties that exact limiting needs at once:
//!
//! - A call whose outcome is unknown is never sent again.
//! - An error says whether the call certainly did not run
//!   ([`is_not_sent`](tollgate_core::Error::is_not_sent)): not all of its bytes were written.
//! - Without a connection a call fails at once.
//! - In a cluster a call goes to the node that serves its slot and to no other, redirects are
//!   bounded, and `TRYAGAIN` reaches the store.
//!
//! General clients have some of them. As of 2026-11, redis-rs outside of clusters and rustis do not
//! repeat a call whose outcome is unknown, and the bare multiplexed connection of redis-rs fails at
//! once; but none of redis-rs, fred, rustis and glide tells what was written from what was not, and
//! their cluster modes repeat calls, hide redirects, wait during slot recovery or use another node.
//! A transport over the `redis` crate is in `examples/examples/redis_own_client.rs`.
//!
//! `dial` connects and logs in; `shared` is the connection that all callers share, and `driver` the
//! task behind it; `exclusive` is a connection for one caller; `resp` parses replies. A `node` is
//! one server with its connection, `sentinel` finds a master, `cluster` the nodes of slots.
//! `inspect` reads settings that matter for counters. The client needs a tokio runtime with I/O and
//! time.

mod cluster;
mod dial;
mod driver;
mod exclusive;
mod host;
mod inspect;
mod node;
mod resp;
mod sentinel;
mod settings;
mod shared;
mod stream;
mod target;

use std::sync::Arc;

use tokio::runtime::Handle;
use tollgate_core::store::{Endpoint, LastAnswer};
use tollgate_core::{BoxFuture, Result};
use tollgate_net::tls::Tls;

use crate::config::{Config, Kind};
use crate::transport::{Call, Reply, Sharing, Spawner, Transport};
use cluster::Cluster;
use node::{Node, Step};
use sentinel::Sentinels;
use settings::Settings;
use target::{Address, Target};

pub(crate) use host::{Host, PORT, SENTINEL_PORT};
pub use inspect::{Inspected, Inspection};
pub(crate) use settings::{Login, Secret};

/// A client of a server, of the master that sentinels name, or of a cluster. Clones share its
/// connections.
#[derive(Clone, Debug)]
pub struct Client {
    servers: Servers,
}

#[derive(Clone, Debug)]
enum Servers {
    One(Arc<Node>),
    Cluster(Cluster),
}

impl Client {
    /// A client that connects on first use. Files of certificates are read now.
    ///
    /// # Errors
    /// When a file that the configuration names is not accepted.
    pub fn open(config: Config) -> Result<Self> {
        let settings = Arc::new(settings(&config)?);
        let address = match &config.kind {
            Kind::Cluster => {
                let cluster = Cluster::new(config.hosts, settings);
                return Ok(Self { servers: Servers::Cluster(cluster) });
            }
            Kind::Sentinel(master) => {
                let of_sentinels = sentinel_settings(&config, &settings)?;
                Address::Master(Sentinels::new(config.hosts, master.clone(), of_sentinels))
            }
            Kind::Standalone => Address::At(config.first_host()?),
        };
        Ok(Self {
            servers: Servers::One(Node::new(Target::new(address, settings), Endpoint::FIRST)),
        })
    }

    /// Connects to every server that holds keys.
    ///
    /// # Errors
    /// When one of them cannot be reached or verified, or refuses the login.
    pub async fn connect(&self) -> Result<()> {
        for node in self.nodes().await? {
            node.target().dial().await?;
        }
        Ok(())
    }

    /// Reads the settings of the servers that matter for counters.
    ///
    /// # Errors
    /// When one of them does not answer.
    pub async fn inspect(&self) -> Result<Inspection> {
        let mut servers = Vec::new();
        for node in self.nodes().await? {
            let mut connection = node.target().dial().await?;
            let mut server =
                Inspected::read(&mut connection, node.target().reply_timeout()).await?;
            server.address = node.target().host().map(ToString::to_string);
            servers.push(server);
        }
        let is_cluster = matches!(self.servers, Servers::Cluster(_));
        Ok(Inspection { servers, is_cluster })
    }

    async fn nodes(&self) -> Result<Vec<Arc<Node>>> {
        match &self.servers {
            Servers::One(node) => Ok(vec![Arc::clone(node)]),
            Servers::Cluster(cluster) => cluster.nodes().await,
        }
    }
}

impl Transport for Client {
    fn sharing(&self) -> Sharing {
        match &self.servers {
            Servers::One(_) => Sharing::AnyKeys,
            Servers::Cluster(_) => Sharing::SameSlot,
        }
    }

    async fn send(&self, call: &Call) -> Result<Reply> {
        match &self.servers {
            Servers::One(node) => node.send(call).await,
            Servers::Cluster(cluster) => cluster.send(call).await,
        }
    }

    async fn send_all(&self, calls: &[Call], mut replied: impl FnMut(usize, Result<Reply>) + Send) {
        match &self.servers {
            Servers::One(_) if calls.is_empty() => {}
            Servers::One(node) => {
                let replies = node.send_all(calls.iter().map(Step::Call)).await;
                replies.into_iter().enumerate().for_each(|(index, reply)| replied(index, reply));
            }
            Servers::Cluster(cluster) => cluster.send_all(calls, replied).await,
        }
    }

    fn endpoint(&self, slot: Option<u16>) -> Endpoint {
        match &self.servers {
            Servers::One(_) => Endpoint::FIRST,
            Servers::Cluster(cluster) => cluster.endpoint(slot),
        }
    }

    fn last_answer(&self, slot: Option<u16>) -> Option<LastAnswer> {
        match &self.servers {
            Servers::One(node) => node.last_answer(),
            Servers::Cluster(cluster) => cluster.last_answer(slot),
        }
    }

    fn spawner(&self) -> Option<Spawner> {
        Handle::try_current().ok().map(|_| spawn as Spawner)
    }

    async fn close(&self) {
        match &self.servers {
            Servers::One(node) => node.close(),
            Servers::Cluster(cluster) => cluster.close(),
        }
    }
}

fn spawn(work: BoxFuture<'static, ()>) {
    drop(tokio::spawn(work));
}

fn settings(config: &Config) -> Result<Settings> {
    let options = &config.options;
    let tls = options.tls.then(|| Tls::new(&options.tls_files)).transpose()?;
    Ok(Settings {
        login: config.login.clone(),
        database: config.database,
        name: options.name.clone(),
        tls,
        connect_timeout: options.connect_timeout,
        reply_timeout: options.reply_timeout,
    })
}

/// Sentinels have users of their own, and no databases.
fn sentinel_settings(config: &Config, settings: &Settings) -> Result<Settings> {
    let options = &config.options;
    let tls = options.sentinel_tls.then(|| Tls::new(&options.tls_files)).transpose()?;
    let login = options.sentinel_login.clone();
    Ok(Settings { login, database: 0, name: None, tls, ..settings.clone() })
}
