//! The servers that are compared: how each is started, with the same limits.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tollgate_test_servers::{Error, Resources, Result, Server, ServerSpec, server_command};

use super::floor;
use super::install::Programs;

/// Units at once under the policy of the load: never exhausted.
pub(super) const BURST: u64 = 10_000_000;
/// Units at once under the policy that denies.
pub(super) const FEW: u64 = 10;
/// Units that come back in [`PERIOD`]: one in 100 seconds, which is more than a round takes.
pub(super) const UNITS: u64 = 864;
/// In seconds.
pub(super) const PERIOD: u64 = 86_400;
/// The policy of keys that live for the whole run: a unit comes back once an hour.
pub(super) const SLOW: &str = "slow";
/// Its units at once.
pub(super) const SLOW_BURST: u64 = 1_000_000;
/// Policies of the load, beside `bench`: their names end as `redis-benchmark` writes numbers.
pub(super) const POLICIES: usize = 100;
/// How long a server may take for a connection.
const ATTEMPT: Duration = Duration::from_secs(1);

/// How a request reaches a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Grpc,
    Http,
    Resp,
}

/// A server of the comparison.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Tollgate {
        program: PathBuf,
        store: String,
    },
    Throttlecrab(PathBuf),
    Nginx(PathBuf),
    /// `current` or `threads`.
    Floor(&'static str),
}

impl Kind {
    /// Tollgate over the memory store.
    pub(super) fn tollgate(programs: &Programs, store: &str) -> Self {
        Self::Tollgate { program: programs.tollgate.clone(), store: store.to_owned() }
    }

    /// Starts it.
    pub(super) fn start(self) -> crate::Result<Server> {
        Server::start(self).map_err(|error| error.to_string())
    }
}

/// The address of a server for a protocol.
pub(super) fn addr(server: &Server, protocol: Protocol) -> SocketAddr {
    let nth = match protocol {
        Protocol::Http => 0,
        Protocol::Grpc => 1,
        Protocol::Resp => 2,
    };
    SocketAddr::from(([127, 0, 0, 1], server.resources().nth_port(nth)))
}

impl ServerSpec for Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::Tollgate { .. } => "tollgate",
            Self::Throttlecrab(_) => "throttlecrab",
            Self::Nginx(_) => "limit-req",
            Self::Floor(_) => "floor",
        }
    }

    fn ports(&self) -> usize {
        3
    }

    fn prepare(&self, resources: &Resources) -> Result<()> {
        let (name, text) = match self {
            Self::Tollgate { store, .. } => ("tollgate.yaml", tollgate(resources, store)),
            Self::Nginx(_) => ("nginx.conf", nginx(resources)),
            _ => return Ok(()),
        };
        resources.write(name, &text).map(drop)
    }

    fn command(&self, resources: &Resources) -> Result<Command> {
        let port = |nth| resources.nth_port(nth).to_string();
        Ok(match self {
            Self::Tollgate { program, .. } => {
                let mut command = server_command(program)?;
                command.args(["serve", "--config", "tollgate.yaml", "--log-level", "warn"]);
                command
            }
            Self::Throttlecrab(program) => {
                let mut command = server_command(program)?;
                command.args(["--http", "--http-host", "127.0.0.1", "--http-port", &port(0)]);
                command.args(["--grpc", "--grpc-host", "127.0.0.1", "--grpc-port", &port(1)]);
                command.args(["--redis", "--redis-host", "127.0.0.1", "--redis-port", &port(2)]);
                command.args(["--log-level", "warn", "--store-capacity", "6000000"]);
                command
            }
            Self::Nginx(program) => {
                let mut command = server_command(program)?;
                command.arg("-p").arg(resources.folder()).args(["-e", "stderr", "-c"]);
                command.arg("nginx.conf");
                command
            }
            Self::Floor(kind) => {
                let mut command = server_command(std::env::current_exe()?)?;
                let at = |nth| format!("127.0.0.1:{}", resources.nth_port(nth));
                command.args([floor::CHILD, kind, &at(0), &at(1)]);
                command
            }
        })
    }

    fn probe(&self, resources: &Resources) -> Result<()> {
        let listeners = match self {
            Self::Tollgate { .. } | Self::Throttlecrab(_) => 3,
            Self::Nginx(_) => 1,
            Self::Floor(_) => 2,
        };
        for nth in 0..listeners {
            let addr = SocketAddr::from(([127, 0, 0, 1], resources.nth_port(nth)));
            TcpStream::connect_timeout(&addr, ATTEMPT).map_err(Error::from)?;
        }
        Ok(())
    }
}

fn tollgate(resources: &Resources, store: &str) -> String {
    let mut text = format!("store: {store}\n");
    for (nth, listener) in ["http", "grpc", "resp"].into_iter().enumerate() {
        let _ = writeln!(text, "{listener}: 127.0.0.1:{}", resources.nth_port(nth));
    }
    let limit = format!("limit: {UNITS} per 1d");
    let _ = writeln!(text, "connections: 20000\ndeadline: 5s\non_outage: closed\npolicies:");
    let _ = writeln!(text, "  bench: {{{limit}, burst: {BURST}}}");
    let _ = writeln!(text, "  few: {{{limit}, burst: {FEW}}}");
    let _ = writeln!(text, "  {SLOW}: {{limit: 1 per 1h, burst: {SLOW_BURST}}}");
    for policy in 0..POLICIES {
        let _ = writeln!(text, "  p{policy:012}: {{{limit}, burst: {BURST}}}");
    }
    text
}

/// The rate is as high as it needs to be, since the burst of nginx is no longer than a rate of
/// whole units per minute makes it. `return` would answer before the limit is looked at.
fn nginx(resources: &Resources) -> String {
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {kind};\n"))
        .collect();
    let few = FEW - 1;
    format!(
        "daemon off;\nworker_processes auto;\npid nginx.pid;\nerror_log stderr crit;\n\
         worker_rlimit_nofile 20000;\nevents {{ worker_connections 8192; }}\n\
         http {{\naccess_log off;\nkeepalive_requests 1000000000;\n{temporary}\
         open_file_cache max=10 inactive=1h;\nopen_file_cache_errors on;\n\
         open_file_cache_valid 1h;\ntcp_nodelay on;\n\
         limit_req_zone $arg_key zone=bench:64m rate=100000r/s;\n\
         limit_req_zone $arg_key zone=few:1m rate=1r/m;\nlimit_req_status 429;\n\
         server {{\nlisten 127.0.0.1:{port} reuseport backlog=4096;\n\
         location = /bench {{ limit_req zone=bench burst=1000000 nodelay; try_files /- @ok; }}\n\
         location = /few {{ limit_req zone=few burst={few} nodelay; try_files /- @ok; }}\n\
         location @ok {{ default_type application/json; \
         return 200 '{{\"allowed\":true,\"verdict\":\"allowed\",\"policy\":\"bench\"}}'; }}\n\
         }}\n}}\n",
        port = resources.port(),
    )
}
