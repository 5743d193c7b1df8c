//! The settings of a Redis server, and its spec.
//!
//! Settings are lines of a configuration file in the folder of the server, which a restart reads
//! again.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::{Redis, RedisCluster, RedisSentinel, programs};
use crate::certificates::Certificates;
use crate::error::{Error, Result};
use crate::install;
use crate::process::server_command;
use crate::resp::{Client, Reply};
use crate::server::{Resources, Server, ServerSpec};

const CONFIG: &str = "redis.conf";
/// How long one attempt to reach it may take.
const ANSWER: Duration = Duration::from_secs(1);
/// The plain socket of a server with TLS, for clients of this crate.
const SOCKET: &str = "redis.sock";

/// A Redis server that is still to be started.
#[derive(Clone, Debug, Default)]
pub struct RedisBuilder {
    password: Option<String>,
    lines: Vec<String>,
    durable: bool,
    in_cluster: bool,
    engine: Engine,
    tls: Option<Tls>,
    /// The certificates of a cluster, whose nodes trust each other; else each server makes its own.
    shared: Option<Certificates>,
}

/// The program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Engine {
    /// The Redis of this machine.
    #[default]
    Redis,
    Redis8,
    Valkey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tls {
    /// The server has a certificate.
    OfServer,
    /// Clients need one too.
    Mutual,
}

impl RedisBuilder {
    /// The default user needs this password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Adds a user, as in an ACL file without the word `user`: `ada on >secret ~tollgate:* +@all`.
    #[must_use]
    pub fn user(self, rules: &str) -> Self {
        self.config(&format!("user {rules}"))
    }

    /// Bounds the memory for data; the policy at the bound is, for example, `allkeys-lru`.
    #[must_use]
    pub fn max_memory(self, bytes: u64, policy: &str) -> Self {
        self.config(&format!("maxmemory {bytes}")).config(&format!("maxmemory-policy {policy}"))
    }

    /// Adds a line of configuration.
    #[must_use]
    pub fn config(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    /// Writes every command to disk before its reply, so that a restart keeps all data.
    #[must_use]
    pub const fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// Accepts only TLS at its port, with a certificate made for it.
    #[must_use]
    pub const fn tls(mut self) -> Self {
        self.tls = Some(Tls::OfServer);
        self
    }

    /// As [`Self::tls`], and requires a certificate of clients.
    #[must_use]
    pub const fn mutual_tls(mut self) -> Self {
        self.tls = Some(Tls::Mutual);
        self
    }

    /// Starts Valkey instead of Redis. The build that is downloaded has no TLS.
    #[must_use]
    pub const fn valkey(mut self) -> Self {
        self.engine = Engine::Valkey;
        self
    }

    /// Starts Redis 8, also where the distribution has another version.
    #[must_use]
    pub const fn redis_8(mut self) -> Self {
        self.engine = Engine::Redis8;
        self
    }

    /// Starts the server; returns once it answers.
    ///
    /// # Errors
    /// When it cannot be installed or started.
    pub fn start(self) -> Result<Redis> {
        let server = Server::start(self.clone())?;
        Ok(Redis { server, built: self })
    }

    /// Starts a cluster of masters; returns once all of them report that it is whole. TLS is used
    /// between the nodes too.
    ///
    /// # Errors
    /// When a node cannot be installed or started, or they do not find each other.
    pub fn start_cluster(self, masters: usize) -> Result<RedisCluster> {
        RedisCluster::of(self, masters)
    }

    /// Starts a master, a replica and three sentinels, which have the password of the servers and
    /// need none; returns once the replica is in step and every sentinel has found the others.
    ///
    /// # Errors
    /// When one cannot be installed or started, or they do not find each other.
    pub fn start_sentinel(self) -> Result<RedisSentinel> {
        RedisSentinel::of(self)
    }

    /// A node of a cluster, which needs another port for its bus: the default, 10,000 above the
    /// first, may not exist.
    pub(super) const fn in_cluster(mut self) -> Self {
        self.in_cluster = true;
        self
    }

    pub(super) const fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Uses TLS with other nodes too, all with the same certificates.
    pub(super) fn tls_among(mut self, certificates: Certificates) -> Self {
        self.shared = Some(certificates);
        self.tls()
    }

    pub(super) fn password_in_use(&self) -> Option<&str> {
        self.password.as_deref()
    }

    pub(super) fn certificates(&self, resources: &Resources) -> Option<Certificates> {
        let own = || Certificates::in_folder(resources.folder());
        self.tls.map(|_| self.shared.clone().unwrap_or_else(own))
    }

    /// A connection, logged in as the default user.
    pub(super) fn client(&self, resources: &Resources) -> Result<Client> {
        let mut client = self.unauthenticated(resources)?;
        if let Some(password) = &self.password {
            client.call(&["AUTH", password])?.ok()?;
        }
        Ok(client)
    }

    /// A connection that is not logged in.
    fn unauthenticated(&self, resources: &Resources) -> Result<Client> {
        Ok(match self.tls {
            None => Client::connect(resources.addr())?,
            Some(_) => Client::connect_unix(&resources.path(SOCKET))?,
        })
    }

    fn config_file(&self, resources: &Resources) -> String {
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("dir {}", quoted(&resources.folder().to_string_lossy())),
            "daemonize no".to_owned(),
            // To the standard output.
            "logfile \"\"".to_owned(),
            "save \"\"".to_owned(),
        ];
        if self.durable {
            lines.extend(["appendonly yes".to_owned(), "appendfsync always".to_owned()]);
        }
        if let Some(password) = self.password.as_deref().map(quoted) {
            lines.push(format!("requirepass {password}"));
            lines.push(format!("masterauth {password}"));
        }
        if self.in_cluster {
            lines.push("cluster-enabled yes".to_owned());
            lines.push(format!("cluster-port {}", resources.nth_port(1)));
            lines.push("cluster-config-file nodes.conf".to_owned());
            // On a busy machine, less would fail healthy nodes.
            lines.push("cluster-node-timeout 2000".to_owned());
        }
        lines.extend(self.listening(resources));
        // Last, so that a test can override any of the above.
        lines.extend(self.lines.iter().cloned());
        lines.join("\n") + "\n"
    }

    fn listening(&self, resources: &Resources) -> Vec<String> {
        let (Some(certificates), Some(tls)) = (self.certificates(resources), self.tls) else {
            return vec![format!("port {}", resources.port())];
        };
        let path =
            |name: &str, path: PathBuf| format!("{name} {}", quoted(&path.to_string_lossy()));
        let clients = if tls == Tls::Mutual { "yes" } else { "no" };
        vec![
            "port 0".to_owned(),
            format!("tls-port {}", resources.port()),
            path("unixsocket", resources.path(SOCKET)),
            path("tls-ca-cert-file", certificates.authority()),
            path("tls-cert-file", certificates.server_certificate()),
            path("tls-key-file", certificates.server_key()),
            format!("tls-auth-clients {clients}"),
            format!("tls-cluster {}", if self.shared.is_some() { "yes" } else { "no" }),
        ]
    }
}

impl ServerSpec for RedisBuilder {
    fn name(&self) -> &'static str {
        match self.engine {
            Engine::Redis => "redis",
            Engine::Redis8 => "redis8",
            Engine::Valkey => "valkey",
        }
    }

    fn ports(&self) -> usize {
        if self.in_cluster { 2 } else { 1 }
    }

    fn prepare(&self, resources: &Resources) -> Result<()> {
        if self.tls.is_some() && self.shared.is_none() {
            Certificates::generate(resources.folder())?;
        }
        resources.write(CONFIG, &self.config_file(resources)).map(drop)
    }

    fn command(&self, resources: &Resources) -> Result<Command> {
        let mut command = match self.engine {
            Engine::Redis => server_command(install::program("redis-server", "redis-server")?)?,
            Engine::Redis8 => programs::redis_8()?,
            Engine::Valkey => programs::valkey()?,
        };
        command.arg(resources.path(CONFIG));
        Ok(command)
    }

    fn probe(&self, resources: &Resources) -> Result<()> {
        let mut client = self.unauthenticated(resources)?;
        client.set_timeout(ANSWER)?;
        match client.call(&["PING"])? {
            Reply::Status(_) => Ok(()),
            // A server that checks passwords is ready; one that loads data replies `LOADING` first.
            Reply::Error(message) if is_access_denied(&message) => Ok(()),
            reply => Err(Error::new(format!("PING was answered by {reply:?}"))),
        }
    }
}

fn is_access_denied(message: &str) -> bool {
    message.starts_with("NOAUTH") || message.starts_with("NOPERM")
}

/// A quoted value for the configuration file.
pub(super) fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}
