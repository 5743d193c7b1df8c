//! The servers that run, and one round of one cell on them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Runtime;
use tollgate_test_servers::{Folder, Redis, Server};

use super::audit::{self, compare};
use super::install::Programs;
use super::kinds::{BURST, Kind, Protocol, addr};
use super::load::{Counted, Resp, h2load, redis_benchmark, wrk};
use super::options::Options;
use super::target::{BENCH, POLICY, RANDOM, SCRIPT, STREAMED, Target};
use super::wire::Message;
use super::{floor, grpc};
use crate::Result;
use crate::usage::Usage;

/// Commands that are sent to find how many a server answers in a second.
const TRIAL: u64 = 20_000;
/// Distinct keys of a cell, if it does not say otherwise.
pub(super) const KEYS: u64 = 10_000;

/// What a cell asks for.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// In `--cells` and errors.
    pub(super) id: String,
    pub(super) target: Target,
    pub(super) protocol: Protocol,
    pub(super) keys: u64,
    pub(super) policies: u64,
    pub(super) connections: u64,
    /// Commands that are sent at once over RESP; streams of a connection over gRPC.
    pub(super) pipeline: u64,
}

/// One round of one cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Decisions per second.
    pub(super) per_second: f64,
    /// Microseconds of CPU of the server per decision.
    pub(super) cpu: f64,
    /// Resident memory of the server after it, in bytes.
    pub(super) resident: f64,
}

/// The servers.
pub(super) struct Bed {
    pub(super) options: Options,
    pub(super) programs: Programs,
    pub(super) runtime: Runtime,
    tollgate: Server,
    throttlecrab: Server,
    nginx: Server,
    floors: [Server; 2],
    redis: Redis,
    /// The name of the script in Redis.
    pub(super) sha: String,
    folder: Folder,
    prefixes: AtomicU64,
}

impl Bed {
    /// Starts all of them.
    pub(super) fn start(options: &Options, programs: &Programs) -> Result<Self> {
        let redis = Redis::start().map_err(|error| error.to_string())?;
        let mut client = redis.client().map_err(|error| error.to_string())?;
        let loaded = client.call(&["SCRIPT", "LOAD", SCRIPT]).map_err(|e| e.to_string())?;
        let sha = loaded.text().ok_or("Redis did not load the script")?.to_owned();
        Ok(Self {
            options: options.clone(),
            programs: programs.clone(),
            runtime: floor::runtime(false)?,
            tollgate: Kind::tollgate(programs, "'memory:?max_keys=6000000'").start()?,
            throttlecrab: Kind::Throttlecrab(programs.throttlecrab.clone()).start()?,
            nginx: Kind::Nginx(programs.nginx.clone()).start()?,
            floors: [Kind::Floor("threads").start()?, Kind::Floor("current").start()?],
            redis,
            sha,
            folder: Folder::new("bench").map_err(|error| error.to_string())?,
            prefixes: AtomicU64::new(0),
        })
    }

    /// The server behind a target, unless it is Redis.
    fn server(&self, target: Target) -> Option<&Server> {
        match target {
            Target::Tollgate | Target::TollgateStream => Some(&self.tollgate),
            Target::Throttlecrab => Some(&self.throttlecrab),
            Target::Nginx => Some(&self.nginx),
            Target::FloorThreads => Some(&self.floors[0]),
            Target::FloorCurrent => Some(&self.floors[1]),
            Target::Incr | Target::Script => None,
        }
    }

    pub(super) fn addr(&self, target: Target, protocol: Protocol) -> std::net::SocketAddr {
        self.server(target).map_or(self.redis.addr(), |server| addr(server, protocol))
    }

    fn pid(&self, target: Target) -> u32 {
        self.server(target).map_or_else(|| self.redis.pid(), Server::pid)
    }

    /// Whether Tollgate answers `AcquireStream`.
    pub(super) fn has_streams(&self) -> bool {
        let (path, message) = Target::TollgateStream.grpc(BENCH, "probe", BURST);
        let addr = self.addr(Target::TollgateStream, Protocol::Grpc);
        self.runtime.block_on(async {
            let client = grpc::Client::connect(addr).await;
            let Ok(mut client) = client else { return false };
            client.call(path, message.framed()).await.is_ok_and(|reply| !reply.is_empty())
        })
    }

    /// Runs a cell once, on keys of its own, and checks the answers.
    pub(super) fn run(&self, cell: &Cell) -> Result<Sample> {
        self.measure(cell).map_err(|error| format!("{}: {error}", cell.id))
    }

    fn measure(&self, cell: &Cell) -> Result<Sample> {
        let prefix = self.prefix();
        let (target, addr) = (cell.target, self.addr(cell.target, cell.protocol));
        if let Some(few) = target.few(cell.protocol, &format!("few-{prefix}"), &self.sha) {
            few.check(addr, &self.runtime)?;
        }
        let usage = Usage::of(self.pid(target));
        let count = match cell.protocol {
            // Of other keys: these would have spent.
            Protocol::Resp => self.resp_count(cell)?,
            _ => 0,
        };
        let before = usage.cpu_ns()?;
        let counted = self.load(cell, &prefix, count)?;
        let spent_ns = usage.cpu_ns()?.saturating_sub(before);
        self.audit(cell, &prefix, &counted)?;
        let decisions = counted.requests.max(1) as f64;
        Ok(Sample {
            per_second: decisions / counted.seconds,
            cpu: spent_ns as f64 / 1e3 / decisions,
            resident: usage.resident() as f64,
        })
    }

    /// The commands that take about the time of a round.
    fn resp_count(&self, cell: &Cell) -> Result<u64> {
        // A lone caller waits for every reply.
        let trial = if cell.connections == 1 { TRIAL / 10 } else { TRIAL };
        let counted = self.load(cell, &self.prefix(), trial)?;
        let rate = counted.requests as f64 / counted.seconds.max(1e-3);
        let count = rate * self.options.time.as_secs_f64() / cell.pipeline as f64;
        Ok((count as u64).max(1) * cell.pipeline)
    }

    /// A prefix of keys that were never used.
    pub(super) fn prefix(&self) -> String {
        format!("u{:05}", self.prefixes.fetch_add(1, Ordering::Relaxed))
    }

    fn load(&self, cell: &Cell, prefix: &str, count: u64) -> Result<Counted> {
        let (target, time) = (cell.target, self.options.time);
        let addr = self.addr(target, cell.protocol);
        match cell.protocol {
            Protocol::Grpc => {
                let (path, message) = target.grpc(BENCH, &key(prefix, 0), BURST);
                let file = self.file("message", &self.repeated(target, message))?;
                let url = format!("http://{addr}{path}");
                let streams = (cell.connections, cell.pipeline);
                let counted = h2load(&self.programs, &url, &file, streams, time)?;
                Ok(match target {
                    Target::TollgateStream => counted.times(STREAMED),
                    _ => counted,
                })
            }
            Protocol::Http => {
                let policy = policy_text(cell);
                let script = target.wrk_script(&policy, prefix, (cell.keys, cell.policies));
                let script = self.file("load.lua", script.as_bytes())?;
                wrk(&self.programs, addr, &script, cell.connections, time)
            }
            Protocol::Resp => {
                let key = format!("{prefix}:{RANDOM}");
                let words = target.resp(BENCH, &key, (BURST, &self.sha));
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let Cell { keys, connections, pipeline, .. } = *cell;
                let load = Resp { addr, words: &words, keys, connections, pipeline };
                redis_benchmark(&self.programs, load, count)
            }
        }
    }

    fn repeated(&self, target: Target, message: Message) -> Vec<u8> {
        let frame = message.framed();
        let count = if target == Target::TollgateStream { STREAMED } else { 1 };
        frame.repeat(usize::try_from(count).unwrap_or(1))
    }

    /// Every unit that was spent, beside what was counted. nginx has no way to ask for it; there
    /// the statuses say that every request was allowed.
    fn audit(&self, cell: &Cell, prefix: &str, counted: &Counted) -> Result<()> {
        let target = cell.target;
        if matches!(target, Target::Nginx | Target::FloorThreads | Target::FloorCurrent) {
            return compare(counted.requests, counted);
        }
        let addr = self.addr(target, Protocol::Resp);
        let keys = if cell.protocol == Protocol::Grpc { 1 } else { cell.keys };
        let look = |number: u64| {
            let policy = policy_text(cell).replace(POLICY, &digits(number % cell.policies));
            target.look(&policy, &key(prefix, number), &self.sha)
        };
        compare(audit::spent(addr, keys, look, |reply| target.spent(reply, BURST))?, counted)
    }

    /// Writes a file for a generator.
    pub(super) fn file(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

/// The policy of a cell; its mark if there are several.
fn policy_text(cell: &Cell) -> String {
    if cell.policies > 1 { format!("p{POLICY}") } else { BENCH.to_owned() }
}

pub(super) fn digits(number: u64) -> String {
    format!("{number:012}")
}

/// The key of this number.
pub(super) fn key(prefix: &str, number: u64) -> String {
    format!("{prefix}:{}", digits(number))
}
