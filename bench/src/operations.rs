//! `operations`: an admission over two keys, and a check that is settled, next to a plain check, on
//! every store that this program has: memory, Redis, PostgreSQL, SQLite.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tollgate::sqlite::Sqlite;
use tollgate::store::{Memory, Store};
use tollgate::{Cost, Limit, Limiter, Quota};
use tollgate_test_servers::{Folder, PgVersion, Redis};

use crate::Result;
use crate::closed::{self, Loop};
use crate::measure::{Pick, rotation};
use crate::report::{Markdown, machine};
use crate::usage::Usage;

/// The name of the subcommand.
pub(crate) const COMMAND: &str = "operations";

const USAGE: &str = "\
usage: tollgate-bench operations [options]
  --rounds N     interleaved rounds (default 5)
  --millis N     length of each run (default 1000)";

const CALLERS: usize = 64;
const KEYS: u64 = 10_000;
/// The defaults would end calls of a load that is as high as it can be.
const DEADLINE: Duration = Duration::from_secs(5);

/// What a caller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Check,
    TwoKeys,
    Settled,
}

const ALL: [(Operation, &str); 3] = [
    (Operation::Check, "a check"),
    (Operation::TwoKeys, "an admission over two keys"),
    (Operation::Settled, "a check, then its settlement"),
];

/// One round: operations per second, and microseconds of CPU of this process and of the store for
/// each.
#[derive(Clone, Copy, Debug)]
struct Sample {
    per_second: f64,
    cpu: f64,
    store_cpu: f64,
}

/// A store under test.
struct Field<S> {
    name: &'static str,
    /// Its process, unless that is this one.
    pid: Option<u32>,
    limiter: Arc<Limiter<S>>,
}

/// Runs the subcommand.
pub(crate) fn print(words: &[String]) -> Result<()> {
    let (mut rounds, mut time) = (5, Duration::from_secs(1));
    for pair in words.chunks(2) {
        let [flag, value] = pair else { return Err(USAGE.into()) };
        let number = value.parse::<u32>().ok().filter(|number| *number > 0).ok_or(USAGE)?;
        match flag.as_str() {
            "--rounds" => rounds = number as usize,
            "--millis" => time = Duration::from_millis(u64::from(number)),
            _ => return Err(USAGE.into()),
        }
    }
    print!("{}", machine());
    println!(
        "Median of {rounds} interleaved rounds of {} ms. Memory: one caller; else {CALLERS}; \
         {KEYS} keys, a token bucket that is never exhausted.\n",
        time.as_millis()
    );
    let mut table = Markdown::new(&["store", "operation"]);
    let columns = ["per second", "CPU µs", "of the store", "CPU of both, × a check"];
    columns.into_iter().for_each(|column| table.column(column));
    table.print_head();
    stores(rounds, time, &table)
}

fn stores(rounds: usize, time: Duration, table: &Markdown) -> Result<()> {
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let _entered = runtime.enter();
    let text = |error: tollgate::Error| error.to_string();
    in_memory((rounds, time), table)?;
    let redis = Redis::start().map_err(|error| error.to_string())?;
    let store = redis.url().parse().and_then(tollgate_redis::Redis::open).map_err(text)?;
    Field::new("Redis", Some(redis.pid()), store).run(&runtime, (rounds, time), table)?;
    let postgres = crate::postgres::durable(PgVersion::V15)?;
    let config: tollgate::postgres::Config = postgres.url().parse().map_err(text)?;
    let connecting = tollgate::postgres::Postgres::connect(config.operation_timeout(DEADLINE));
    let store = runtime.block_on(connecting).map_err(text)?;
    let field = Field::new("PostgreSQL", Some(postgres.pid()), store);
    field.run(&runtime, (rounds, time), table)?;
    let folder = Folder::new("bench").map_err(|error| error.to_string())?;
    let config = tollgate::sqlite::Config::new(folder.path().join("limits.db"));
    let store = Sqlite::open(config).map_err(text)?;
    Field::new("SQLite", None, store).run(&runtime, (rounds, time), table)
}

impl<S: Store + 'static> Field<S> {
    fn new(name: &'static str, pid: Option<u32>, store: S) -> Self {
        let limiter = Arc::new(Limiter::builder(store).deadline(DEADLINE).build());
        Self { name, pid, limiter }
    }

    fn run(
        &self,
        runtime: &Runtime,
        (rounds, time): (usize, Duration),
        table: &Markdown,
    ) -> Result<()> {
        let mut samples = vec![Vec::new(); ALL.len()];
        for round in 0..=rounds {
            for place in rotation(ALL.len(), round) {
                let (operation, title) = ALL[place];
                let sample = self.measure(runtime, operation, time);
                let sample = sample.map_err(|error| format!("{}, {title}: {error}", self.name))?;
                // In the first, keys are made and connections opened.
                if round > 0 {
                    samples[place].push(sample);
                }
            }
        }
        runtime.block_on(self.limiter.close());
        rows(self.name, &samples, self.pid.is_some(), table);
        Ok(())
    }

    fn measure(&self, runtime: &Runtime, operation: Operation, time: Duration) -> Result<Sample> {
        let limit = Arc::new(limit()?);
        let caller = |caller: usize| {
            let (limiter, limit) = (Arc::clone(&self.limiter), Arc::clone(&limit));
            move |call: u64| {
                let number = (caller as u64 + call * CALLERS as u64) % KEYS;
                let keys = [format!("user:{number:05}"), format!("address:{number:05}")];
                operate(Arc::clone(&limiter), Arc::clone(&limit), operation, keys)
            }
        };
        let store = self.pid.map(Usage::of);
        let used = || store.as_ref().map_or(Ok(0), Usage::cpu_ns);
        let before = used()?;
        let done: Loop = runtime.block_on(closed::run(CALLERS, time, caller))?;
        let each = |ns: u64| ns as f64 / 1e3 / done.calls.max(1) as f64;
        Ok(Sample {
            per_second: done.per_second(),
            cpu: each(done.own_cpu_ns),
            store_cpu: each(used()?.saturating_sub(before)),
        })
    }
}

/// A unit comes back once an hour: a settlement gives back what was charged before.
fn limit() -> Result<Limit> {
    let refill = Quota::new(1, Duration::from_secs(3_600));
    Limit::token_bucket("bench", 1_000_000, refill).map_err(|error| error.to_string())
}

/// Prints the rows of a store.
fn rows(name: &str, samples: &[Vec<Sample>], has_process: bool, table: &Markdown) {
    let figure = |samples: &[Sample], of: fn(&Sample) -> f64| {
        Pick::Median.of(samples.iter().map(of).collect())
    };
    let both = |sample: &Sample| sample.cpu + sample.store_cpu;
    let base = samples.first().map_or(f64::NAN, |samples| figure(samples, both));
    for ((_, title), samples) in ALL.iter().zip(samples) {
        let store = match has_process {
            true => format!("{:.2}", figure(samples, |sample| sample.store_cpu)),
            false => "–".to_owned(),
        };
        table.print_row(&[
            name.to_owned(),
            (*title).to_owned(),
            format!("{:.0}", figure(samples, |sample| sample.per_second)),
            format!("{:.3}", figure(samples, |sample| sample.cpu)),
            store,
            format!("{:.2}", figure(samples, both) / base),
        ]);
    }
}

/// The memory store, by one thread without a runtime: the work of a caller would hide the rest.
fn in_memory((rounds, time): (usize, Duration), table: &Markdown) -> Result<()> {
    let limiter = Limiter::in_memory();
    let limit = limit()?;
    let keys: Vec<[String; 2]> = (0..KEYS)
        .map(|number| [format!("user:{number:05}"), format!("address:{number:05}")])
        .collect();
    let mut samples = vec![Vec::new(); ALL.len()];
    for round in 0..=rounds {
        for place in rotation(ALL.len(), round) {
            let (usage, start) = (Usage::own(), Instant::now());
            let (before, mut calls) = (usage.cpu_ns()?, 0_u64);
            while start.elapsed() < time {
                for keys in &keys {
                    in_memory_once(&limiter, &limit, ALL[place].0, keys)?;
                }
                calls += KEYS;
            }
            let used = usage.cpu_ns()?.saturating_sub(before);
            let (calls, seconds) = (calls as f64, start.elapsed().as_secs_f64());
            let cpu = used as f64 / 1e3 / calls;
            if round > 0 {
                samples[place].push(Sample { per_second: calls / seconds, cpu, store_cpu: 0.0 });
            }
        }
    }
    rows("memory", &samples, false, table);
    Ok(())
}

fn in_memory_once(
    limiter: &Limiter<Memory>,
    limit: &Limit,
    operation: Operation,
    [one, other]: &[String; 2],
) -> Result<()> {
    let text = |error: tollgate::Error| error.to_string();
    let cost = Cost::new(3).map_err(text)?;
    let (charge, sync) = (limit.charge(one).cost(cost), limiter.sync());
    let decision = match operation {
        Operation::TwoKeys => sync.check(&[charge, limit.charge(other).cost(cost)]),
        _ => sync.check(charge),
    };
    let decision = decision.map_err(text)?;
    let is_right = match operation {
        Operation::Settled => {
            let receipt = decision.receipt().ok_or("an allowed charge has a receipt")?;
            let settled = sync.settle(charge.settle(receipt, 1)).map_err(text)?;
            settled.each.first().map(|one| one.given_back) == Some(2)
        }
        _ => decision.is_allowed(),
    };
    if is_right { Ok(()) } else { Err(format!("an unexpected decision: {decision:?}")) }
}

/// One operation; fails if it was not done by the store as it must be.
async fn operate<S: Store>(
    limiter: Arc<Limiter<S>>,
    limit: Arc<Limit>,
    operation: Operation,
    [one, other]: [String; 2],
) -> Result<bool> {
    let text = |error: tollgate::Error| error.to_string();
    let cost = Cost::new(3).map_err(text)?;
    let charge = limit.charge(&one).cost(cost);
    let decision = match operation {
        Operation::TwoKeys => limiter.check(&[charge, limit.charge(&other).cost(cost)]).await,
        _ => limiter.check(charge).await,
    };
    let decision = decision.map_err(text)?;
    if !decision.is_allowed() || decision.degraded.is_some() {
        return Err(format!("an unexpected decision: {decision:?}"));
    }
    if operation == Operation::Settled {
        let receipt = decision.receipt().ok_or("an allowed charge has a receipt")?;
        let settled = limiter.settle(charge.settle(receipt, 1)).await.map_err(text)?;
        if settled.each.first().map(|one| one.given_back) != Some(2) {
            return Err(format!("an unexpected settlement: {settled:?}"));
        }
    }
    Ok(true)
}
