//! `redis`: Tollgate on a real Redis beside the ceiling, the usual way, and a rival.
//!
//! All cases run against the same servers in one run, in interleaved rounds, so that other load
//! of the machine affects all of them. A figure is the median over the rounds; a ratio is the
//! median of the ratios of each round. Cases of a single caller take turns within a round.

mod callers;
mod case;
mod ceiling;
mod latency;
mod limitador;
mod lockstep;
mod options;
mod ping;
mod placement;
mod race;
mod sample;
mod servers;
pub(crate) mod sliding;
mod table;
mod tollgate;
mod walk;
mod wire;

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tollgate_test_servers::{Redis, RedisCluster};

use crate::Result;
use crate::measure::rotation;
use case::{Case, Field, Place};
use options::Options;
use placement::Apart;
use sample::Sample;
use servers::Servers;
use table::Results;

/// The quota of every case: never exhausted, never back to fresh.
const UNITS: u64 = 1_000_000_000;
const PERIOD_SECONDS: u64 = 86_400;
/// Distinct keys.
const KEYS: usize = 20_480;
/// Threads of the runtime on a cluster, whose servers need the cores: as many as the ceiling has.
const CLUSTER_THREADS: usize = 1;
/// Part of a round that each case runs beforehand: keys are created, connections opened.
const WARM_UP: u32 = 3;
/// The number of turns into which the time of a lone caller is split in each round: differences of
/// a few microseconds are compared, and the machine varies by more from one second to the next.
const TURNS: u32 = 50;

/// Names of cases with one caller begin so.
const LONE: &str = "lone-";

const CASES: [&str; 16] = [
    "a-ceiling",
    "b-store",
    "b-limiter",
    "c-hot-64",
    "c-hot-256",
    "d-lockstep",
    "e-limitador",
    "f-race-combined",
    "f-race-apart",
    "cluster-a-ceiling",
    "cluster-b-store",
    "lone-ping",
    "lone-ping-async",
    "lone-evalsha",
    "lone-store",
    "lone-limiter",
];

/// Runs all cases and prints the tables.
pub(crate) fn print(words: &[String]) -> Result<()> {
    let options = Options::parse(words)?;
    let cluster_threads = options.workers.unwrap_or(CLUSTER_THREADS);
    let runtimes =
        Runtimes { main: runtime(options.workers)?, cluster: runtime(Some(cluster_threads))? };
    let redis = Redis::start().map_err(|error| error.to_string())?;
    let cluster = RedisCluster::start(3).map_err(|error| error.to_string())?;
    let field = Field::new(&runtimes, &redis, &cluster)?;
    let mut contest =
        Contest { alone: Servers::new([&redis])?, masters: Servers::new(cluster.nodes())? };
    let entries = |is_lone: bool| -> Result<Vec<Entry<'_>>> {
        let wanted = CASES.into_iter().filter(|id| id.starts_with(LONE) == is_lone);
        let wanted = wanted.filter(|id| options.wants(id));
        wanted.map(|id| Ok(Entry { case: field.case(id)?, samples: Vec::new() })).collect()
    };
    let (mut concurrent, mut lone) = (entries(false)?, entries(true)?);
    for entry in concurrent.iter_mut().chain(&mut lone) {
        entry.case.run_for(options.time / WARM_UP)?;
    }
    for round in 0..options.rounds {
        contest.run(&mut concurrent, round, options.time)?;
        if !lone.is_empty() {
            let _apart = Apart::new(&redis)?;
            for turn in 0..TURNS as usize {
                contest.run(&mut lone, round * TURNS as usize + turn, options.time / TURNS)?;
            }
        }
    }
    let version = version(&redis)?;
    let entries = concurrent.into_iter().chain(lone);
    let results =
        Results::new(entries.map(|Entry { case, samples }| (case.id, case.title, samples)));
    results.print(&options, &version);
    Ok(())
}

/// A case, and what it did in each round.
struct Entry<'a> {
    case: Case<'a>,
    samples: Vec<Sample>,
}

/// The servers that all cases use.
struct Contest<'a> {
    alone: Servers<'a>,
    masters: Servers<'a>,
}

impl Contest<'_> {
    /// Runs every case for this long, in an order that changes with the round.
    fn run(&mut self, entries: &mut [Entry<'_>], round: usize, time: Duration) -> Result<()> {
        for place in rotation(entries.len(), round) {
            let Entry { case, samples } = &mut entries[place];
            let servers = match case.place {
                Place::Standalone => &mut self.alone,
                Place::Cluster => &mut self.masters,
            };
            let begun = servers.begin()?;
            let run = case.run_for(time)?;
            samples.push(Sample::new(run, &servers.end(&begun)?));
        }
        Ok(())
    }
}

/// Where callers run.
struct Runtimes {
    main: Runtime,
    cluster: Runtime,
}

fn runtime(workers: Option<usize>) -> Result<Runtime> {
    let mut builder = match workers {
        Some(1) => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    if let Some(workers) = workers.filter(|workers| *workers > 1) {
        builder.worker_threads(workers);
    }
    builder.enable_all().build().map_err(|error| error.to_string())
}

fn version(redis: &Redis) -> Result<String> {
    let mut client = redis.client().map_err(|error| error.to_string())?;
    let reply = client.call(&["INFO", "server"]).map_err(|error| error.to_string())?;
    let text = reply.text().unwrap_or_default();
    let version = text.lines().find_map(|line| line.strip_prefix("redis_version:"));
    Ok(version.unwrap_or("of unknown version").trim().to_owned())
}
