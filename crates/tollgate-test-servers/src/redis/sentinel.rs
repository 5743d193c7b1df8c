//! A Redis master with a replica, and three sentinels that make the replica the master when the
//! master is down.

use std::process::Command;
use std::time::Duration;

use super::{Redis, RedisBuilder};
use crate::error::{Error, Result};
use crate::install;
use crate::process::server_command;
use crate::resp::{Client, Reply};
use crate::server::{Resources, Server, ServerSpec};
use crate::wait::until_ok;

const NAME: &str = "tollgate";
const SENTINELS: usize = 3;
const QUORUM: usize = 2;
const CONFIG: &str = "sentinel.conf";
/// A master counts as down after this. Sentinels connect and send commands about once a second:
/// with little more than that, a new master counts as down before its first reply, and an old one
/// that restarted empty becomes the master again.
const DOWN_AFTER_MS: u64 = 3_000;
/// Sentinels exchange messages once a second, so agreement takes a few seconds.
const AGREE: Duration = Duration::from_secs(60);

/// A master, a replica and three sentinels.
#[derive(Debug)]
pub struct RedisSentinel {
    nodes: Vec<Redis>,
    sentinels: Vec<Server>,
}

impl RedisSentinel {
    /// Starts a master, its replica and three sentinels without passwords.
    ///
    /// # Errors
    /// As [`RedisBuilder::start_sentinel`].
    pub fn start() -> Result<Self> {
        Redis::builder().start_sentinel()
    }

    pub(super) fn of(node: RedisBuilder) -> Result<Self> {
        // A replica gets its copy at once; by default the master waits for more replicas.
        let node = node.config("repl-diskless-sync-delay 0");
        let master = node.clone().start()?;
        let replica = node.config(&format!("replicaof 127.0.0.1 {}", master.port())).start()?;
        until_ok(AGREE, || is_linked(&replica))?;
        let spec =
            Sentinel { master_port: master.port(), password: master.password().map(str::to_owned) };
        let sentinels = (0..SENTINELS).map(|_| Server::start(spec.clone()));
        let sentinels = sentinels.collect::<Result<Vec<_>>>()?;
        let started = Self { nodes: vec![master, replica], sentinels };
        started.wait_until_watched()?;
        Ok(started)
    }

    /// The name of the master at the sentinels.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        NAME
    }

    /// The sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// The URLs of the sentinels.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.sentinels.iter().map(|sentinel| super::url(None, sentinel.port())).collect()
    }

    /// Both servers: the first master, and its first replica.
    #[must_use]
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// The master, if all sentinels that run name the same, and it agrees.
    ///
    /// # Errors
    /// When they do not agree (yet), or one does not answer.
    pub fn master(&self) -> Result<&Redis> {
        let mut named = Vec::new();
        for sentinel in self.sentinels.iter().filter(|sentinel| sentinel.is_running()) {
            let command = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME];
            let answer = Client::connect(sentinel.addr())?.call(&command)?.ok()?;
            let port = answer.elements().get(1).and_then(Reply::text);
            named.push(port.and_then(|port| port.parse::<u16>().ok()));
        }
        named.dedup();
        let [Some(port)] = named.as_slice() else {
            return Err(Error::new(format!("the sentinels name several masters: {named:?}")));
        };
        let master = self.nodes.iter().find(|node| node.port() == *port);
        let master = master.ok_or_else(|| Error::new("the sentinels name an unknown server"))?;
        let role = master.client()?.call(&["ROLE"])?.ok()?;
        match role.elements().first().and_then(Reply::text) {
            Some("master") => Ok(master),
            other => Err(Error::new(format!("the named master has the role {other:?}"))),
        }
    }

    /// Kills the master, and waits until the replica is the new one for every sentinel.
    ///
    /// # Errors
    /// When there is no master to begin with, or no new one in time.
    pub fn fail_over(&self) -> Result<&Redis> {
        let old = self.master()?;
        old.kill()?;
        self.wait_for_master_other_than(old)
    }

    /// Waits until another server is the master for every sentinel.
    ///
    /// # Errors
    /// When there is none in time.
    pub fn wait_for_master_other_than(&self, old: &Redis) -> Result<&Redis> {
        until_ok(AGREE, || match self.master()? {
            same if same.port() == old.port() => Err(Error::new("it is still the old master")),
            new => Ok(new),
        })
    }

    /// Waits until every sentinel has found the replica and the other sentinels, and has a quorum:
    /// after a restart of one, for example.
    ///
    /// # Errors
    /// When they do not in time.
    pub fn wait_until_watched(&self) -> Result<()> {
        for sentinel in &self.sentinels {
            until_ok(AGREE, || {
                let mut client = Client::connect(sentinel.addr())?;
                let master = client.call(&["SENTINEL", "MASTER", NAME])?.ok()?;
                let shows = |name: &str, value: usize| {
                    let value = value.to_string();
                    let mut pairs = master.elements().chunks_exact(2);
                    pairs.any(|pair| {
                        let mut texts = pair.iter().map(Reply::text);
                        texts.next() == Some(Some(name)) && texts.next() == Some(Some(&value))
                    })
                };
                if shows("num-other-sentinels", SENTINELS - 1) && shows("num-slaves", 1) {
                    return client.call(&["SENTINEL", "CKQUORUM", NAME])?.ok().map(drop);
                }
                Err(Error::new("a sentinel has not found all the others yet"))
            })?;
        }
        Ok(())
    }
}

/// Whether a replica is connected to its master.
fn is_linked(replica: &Redis) -> Result<()> {
    let reply = replica.client()?.call(&["INFO", "replication"])?.ok()?;
    match reply.text() {
        Some(text) if text.contains("master_link_status:up") => Ok(()),
        other => Err(Error::new(format!("the replica has no link: {other:?}"))),
    }
}

#[derive(Clone, Debug)]
struct Sentinel {
    master_port: u16,
    password: Option<String>,
}

impl ServerSpec for Sentinel {
    fn name(&self) -> &'static str {
        "redis-sentinel"
    }

    /// The sentinel writes its state into this file, and reads it again after a restart.
    fn prepare(&self, resources: &Resources) -> Result<()> {
        let folder = super::builder::quoted(&resources.folder().to_string_lossy());
        let mut text = format!(
            "bind 127.0.0.1\nport {}\ndir {folder}\nlogfile \"\"\n\
             sentinel monitor {NAME} 127.0.0.1 {} {QUORUM}\n\
             sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}\n\
             sentinel failover-timeout {NAME} 10000\n\
             sentinel parallel-syncs {NAME} 1\n",
            resources.port(),
            self.master_port,
        );
        if let Some(password) = self.password.as_deref().map(super::builder::quoted) {
            text += &format!("sentinel auth-pass {NAME} {password}\n");
        }
        resources.write(CONFIG, &text).map(drop)
    }

    fn command(&self, resources: &Resources) -> Result<Command> {
        let mut command = server_command(install::program("redis-server", "redis-server")?)?;
        command.arg(resources.path(CONFIG)).arg("--sentinel");
        Ok(command)
    }

    fn probe(&self, resources: &Resources) -> Result<()> {
        Client::connect(resources.addr())?.call(&["PING"])?.ok().map(drop)
    }
}
