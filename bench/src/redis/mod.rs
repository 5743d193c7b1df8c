//! `redis`: Tollgate on a real Redis beside the ceiling, the usual way, and a rival.
//!
//! All cases run against the same servers in one run, in interleaved rounds, so that whatever else
//! the machine does meets all of them. A figure is the median over the rounds; a ratio is the median
//! of the ratios of each round.

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
mod table;
mod tollgate;
mod walk;
mod wire;

use tokio::runtime::{Builder, Runtime};
use tollgate_testkit::servers::{Redis, RedisCluster};

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
    "lone-ping",
    "lone-ping-async",
    "lone-evalsha",
    "lone-store",
    "lone-limiter",
    "cluster-a-ceiling",
    "cluster-b-store",
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
    let wanted = CASES.into_iter().filter(|id| options.wants(id));
    let mut cases: Vec<Case<'_>> = wanted.map(|id| field.case(id)).collect::<Result<_>>()?;
    let mut alone = Servers::new([&redis])?;
    let mut masters = Servers::new(cluster.nodes())?;
    for case in &mut cases {
        (case.run)(options.time / WARM_UP).map_err(|error| format!("{}: {error}", case.id))?;
    }
    let mut samples: Vec<Vec<Sample>> = cases.iter().map(|_| Vec::new()).collect();
    for round in 0..options.rounds {
        for place in rotation(cases.len(), round) {
            let case = &mut cases[place];
            let servers = match case.place {
                Place::Standalone | Place::Apart => &mut alone,
                Place::Cluster => &mut masters,
            };
            let is_lone = case.place == Place::Apart;
            let apart = is_lone.then(|| Apart::new(&redis)).transpose()?;
            let begun = servers.begin()?;
            let run = (case.run)(options.time).map_err(|error| format!("{}: {error}", case.id))?;
            samples[place].push(Sample::new(run, &servers.end(&begun)?));
            drop(apart);
        }
    }
    let version = version(&redis)?;
    let results = Results::new(cases.into_iter().map(|case| (case.id, case.title)).zip(samples));
    results.print(&options, &version);
    Ok(())
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
