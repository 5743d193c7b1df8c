//! A client of Redis made for exact limiting.
//!
//! What general clients do not promise, and this one does: a call whose outcome is unknown is never
//! sent again; an error says whether the call certainly did not run
//! ([`is_not_sent`](tollgate_core::Error::is_unsent)); without a connection a call fails at once; and
//! whatever many callers want at the same moment goes out in one write.
//!
//! `url` says where the servers are; `dial` connects, with `tls` and `wire`; `link` keeps a server
//! connected, by running a `connection` that takes commands from a `queue`, unless a caller who is
//! `alone` runs it; `resp` is the wire format. `sentinel` finds a master, `cluster` the nodes of slots, and a `node` is one server with its
//! links. A `session` is a connection of one's own; `inspect` asks what an operator should know. It
//! needs a tokio runtime with I/O and time.

mod alone;
mod backoff;
mod cluster;
mod connection;
mod dial;
mod host;
mod inspect;
mod link;
mod node;
mod number;
mod queue;
mod resp;
mod secret;
mod sending;
mod sentinel;
mod session;
mod settings;
mod stream;
mod target;
mod url;
mod watching;
mod wire;

use std::sync::Arc;

use tokio::runtime::Handle;
use tollgate_core::store::patience::silent;
use tollgate_core::{BoxFuture, Result};
use tollgate_net::tls::Tls;

use crate::late::in_time;
use crate::transport::{Call, Districts, Reply, Sessions, Sharing, Spawner, Transport};
use cluster::Cluster;
use node::{Node, Step};
use sending::Sending;
use sentinel::Sentinels;
use settings::Settings;
use target::{Place, Target};
use url::{Kind, Share};

pub use inspect::{Inspected, Inspection};
pub use session::Session;
pub use url::Url;

/// A client of a server, of the master that sentinels name, or of a cluster. Clones share its
/// connections.
#[derive(Clone, Debug)]
pub struct Client {
    servers: Servers,
}

#[derive(Clone, Debug)]
enum Servers {
    One(Arc<Node>),
    Many(Cluster),
}

impl Client {
    /// A client of what a URL names; see [`Url`] for its forms. Files of certificates are read now,
    /// connections are made on first use.
    ///
    /// # Errors
    /// When the URL or a file that it names is not accepted.
    pub fn open(url: &str) -> Result<Self> {
        let url: Url = url.parse()?;
        let settings = Arc::new(settings(&url)?);
        let place = match url.kind {
            Kind::Cluster => {
                let servers = Servers::Many(Cluster::new(url.hosts, settings));
                return Ok(Self { servers });
            }
            Kind::Sentinel(ref master) => {
                let asking = sentinel_settings(&url, &settings)?;
                Place::Named(Sentinels::new(url.hosts.clone(), master.clone(), asking))
            }
            Kind::Standalone => Place::At(url.first_host()?),
        };
        Ok(Self { servers: Servers::One(Node::new(Target::new(place, settings))) })
    }

    /// A connection of one's own, to the server that holds `key`: for `WATCH`, `MULTI` and `EXEC`.
    ///
    /// # Errors
    /// When there is no connection to be had. Nothing was sent.
    pub async fn session(&self, key: &str) -> Result<Session> {
        match &self.servers {
            Servers::One(node) => Ok(Session::new(node.wire().await?, Arc::clone(node))),
            Servers::Many(cluster) => cluster.session(key).await,
        }
    }
}

impl Client {
    /// Asks the servers what should be known before they are trusted with counters.
    ///
    /// # Errors
    /// When one of them does not answer.
    pub async fn inspect(&self) -> Result<Inspection> {
        let nodes = match &self.servers {
            Servers::One(node) => vec![Arc::clone(node)],
            Servers::Many(cluster) => cluster.nodes().await?,
        };
        let mut servers = Vec::with_capacity(nodes.len());
        for node in nodes {
            let mut wire = node.wire().await?;
            let mut inspected = Inspected::ask(&mut wire, node.target().reply_timeout()).await?;
            inspected.address = node.target().host().map(ToString::to_string);
            node.keep(wire);
            servers.push(inspected);
        }
        let is_cluster = matches!(self.servers, Servers::Many(_));
        Ok(Inspection { servers, is_cluster })
    }
}

impl Transport for Client {
    fn sharing(&self) -> Sharing {
        match &self.servers {
            Servers::One(_) => Sharing::AnyKeys,
            Servers::Many(_) => Sharing::SameSlot,
        }
    }

    fn districts(&self) -> Option<Arc<Districts>> {
        match &self.servers {
            Servers::One(_) => None,
            Servers::Many(cluster) => cluster.districts(),
        }
    }

    async fn send(&self, call: &Call) -> Result<Reply> {
        Sending::new(&self.servers, call).await
    }

    async fn send_all(&self, calls: &[Call]) -> Vec<Result<Reply>> {
        match &self.servers {
            Servers::One(node) => {
                let (replies, mark) = node.send_all(calls.iter().map(Step::Call));
                in_time(replies).await.unwrap_or_else(|| {
                    let why = node.last_words(mark).unwrap_or_else(silent);
                    calls.iter().map(|_| Err(why.clone())).collect()
                })
            }
            Servers::Many(cluster) => cluster.send_all(calls).await,
        }
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        Some(self)
    }

    fn spawner(&self) -> Option<Spawner> {
        Handle::try_current().ok().map(|_| spawn as Spawner)
    }

    async fn close(&self) {
        match &self.servers {
            Servers::One(node) => node.close(),
            Servers::Many(cluster) => cluster.close(),
        }
    }
}

fn spawn(work: BoxFuture<'static, ()>) {
    drop(tokio::spawn(work));
}

fn settings(url: &Url) -> Result<Settings> {
    let options = &url.options;
    let tls = options.tls.then(|| Tls::new(&options.tls_files)).transpose()?;
    Ok(Settings {
        login: url.login.clone(),
        database: url.database,
        name: options.name.clone(),
        tls,
        connect_timeout: options.connect_timeout,
        reply_timeout: options.reply_timeout,
        connections: options.connections,
        shares_calls: options.share.unwrap_or_default() == Share::Node,
    })
}

/// Sentinels have users of their own, and no databases.
fn sentinel_settings(url: &Url, settings: &Settings) -> Result<Settings> {
    let options = &url.options;
    let tls = options.sentinel_tls.then(|| Tls::new(&options.tls_files)).transpose()?;
    let login = options.sentinel_login.clone();
    Ok(Settings { login, database: 0, name: None, tls, ..settings.clone() })
}
