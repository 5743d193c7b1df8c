//! What request ids cost: granted checks with a fresh id each beside the same without, and beside
//! bare insertions of the rows of the ids.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls};
use tollgate::authoring::BoxFuture;
use tollgate::postgres::Postgres;

use super::contender::{Contender, Kind, config};
use super::load::Random;
use super::options::Options;
use super::psql;
use crate::Result;
use crate::closed;
use crate::measure::Pick;
use crate::report::Markdown;
use crate::usage::Usage;

const KEYS: u64 = 10_000;
const CALLERS: usize = 1_024;
/// As the store has.
const CONNECTIONS: usize = 2;
/// Rows of one insertion: the callers of one of the connections.
const BATCH: usize = CALLERS / CONNECTIONS;
/// What the store sends.
const INSERT: &str = "INSERT INTO bench.limits_once (key, value, expires) \
    SELECT * FROM unnest($1, $2, $3) AS n(key, value, expires) ORDER BY n.key COLLATE \"C\"";

const WARM_UP: Duration = Duration::from_millis(500);

/// A row of the table.
#[derive(Clone, Copy, Debug)]
enum What {
    Checks(Kind),
    Inserts { is_relaxed: bool },
}

const ALL: [What; 6] = [
    What::Checks(Kind::Tollgate),
    What::Checks(Kind::TollgateOnce),
    What::Inserts { is_relaxed: false },
    What::Checks(Kind::TollgateRelaxed),
    What::Checks(Kind::TollgateOnceRelaxed),
    What::Inserts { is_relaxed: true },
];

/// One run: its rate, and what each check or row took. CPU in microseconds; the write-ahead log in
/// bytes.
#[derive(Clone, Copy, Debug)]
struct Sample {
    per_second: f64,
    p99_ms: f64,
    own_cpu: f64,
    server_cpu: f64,
    log: f64,
}

/// Runs all of them in interleaved rounds and prints their medians.
pub(crate) async fn print(options: &Options, server: Option<u32>) -> Result<()> {
    let mut samples = vec![Vec::new(); ALL.len()];
    for round in 0..options.rounds {
        for turn in 0..ALL.len() {
            let index = (turn + round) % ALL.len();
            let sample = measure(ALL[index], options, server).await?;
            eprintln!("round {round}: {:?}: {sample:?}", ALL[index]);
            samples[index].push(sample);
        }
    }
    let mut markdown = Markdown::new(&["what"]);
    for title in ["per second", "p99 ms", "CPU µs", "of the server", "bytes of its log"] {
        markdown.column(title);
    }
    markdown.print_head();
    for (what, samples) in ALL.iter().zip(&samples) {
        let figure = |of: fn(&Sample) -> f64| Pick::Median.of(samples.iter().map(of).collect());
        markdown.print_row(&[
            what.title(),
            format!("{:.0}", figure(|sample| sample.per_second)),
            format!("{:.1}", figure(|sample| sample.p99_ms)),
            format!("{:.1}", figure(|sample| sample.own_cpu)),
            format!("{:.1}", figure(|sample| sample.server_cpu)),
            format!("{:.0}", figure(|sample| sample.log)),
        ]);
    }
    Ok(())
}

impl What {
    fn title(self) -> String {
        match self {
            Self::Checks(kind) => kind.title().to_owned(),
            Self::Inserts { is_relaxed: false } => "rows of ids, inserted".to_owned(),
            Self::Inserts { is_relaxed: true } => "rows of ids, inserted, relaxed".to_owned(),
        }
    }
}

/// What the server has used so far: CPU in nanoseconds, and bytes of its log.
struct Used {
    cpu_ns: u64,
    log: f64,
}

impl Used {
    /// Processes of the server that have ended do not count: ask while the connections are open.
    fn now(options: &Options, server: Option<u32>) -> Result<Self> {
        let log = psql(options.url(), "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")?;
        Ok(Self {
            cpu_ns: server.map_or(Ok(0), |pid| Usage::of(pid).cpu_ns())?,
            log: log.parse().map_err(|_| "the server has no position of its log")?,
        })
    }
}

async fn measure(what: What, options: &Options, server: Option<u32>) -> Result<Sample> {
    let (before, done, after, rows) = match what {
        What::Checks(kind) => {
            let contender = Arc::new(Contender::open(kind, options).await?);
            // Rows of keys and connections are made.
            closed::run(CALLERS, WARM_UP, |caller| checks(&contender, caller)).await?;
            let before = Used::now(options, server)?;
            let done =
                closed::run(CALLERS, options.length, |caller| checks(&contender, caller)).await?;
            let after = Used::now(options, server)?;
            contender.close().await;
            (before, done, after, 1)
        }
        What::Inserts { is_relaxed } => {
            let again = "DROP SCHEMA IF EXISTS bench CASCADE; CREATE SCHEMA bench; CHECKPOINT";
            psql(options.url(), again)?;
            let migrated = Postgres::migrate(config(options)?).await;
            migrated.map_err(|error| error.to_string())?;
            let one = Arc::new(connect(options, is_relaxed).await?);
            let other = Arc::new(connect(options, is_relaxed).await?);
            let before = Used::now(options, server)?;
            let caller = |caller: usize| {
                let client = Arc::clone(if caller == 0 { &one } else { &other });
                move |call: u64| insert(Arc::clone(&client), caller as u64, call)
            };
            let done = closed::run(CONNECTIONS, options.length, caller).await?;
            (before, done, Used::now(options, server)?, BATCH)
        }
    };
    if done.failed > 0 {
        return Err(format!("{} calls failed", done.failed));
    }
    let count = (done.calls * rows as u64) as f64;
    let micros = |ns: u64| ns as f64 / 1e3 / count;
    Ok(Sample {
        per_second: count / done.seconds,
        p99_ms: done.millis(99),
        own_cpu: micros(done.own_cpu_ns),
        server_cpu: micros(after.cpu_ns.saturating_sub(before.cpu_ns)),
        log: (after.log - before.log) / count,
    })
}

/// A caller that checks a key at random, with a fresh id.
fn checks(
    contender: &Arc<Contender>,
    caller: usize,
) -> impl FnMut(u64) -> BoxFuture<'static, Result<bool>> + Send + use<> {
    let contender = Arc::clone(contender);
    let mut random = fresh(caller as u64);
    move |_| {
        let contender = Arc::clone(&contender);
        let (key, id) = (key(&mut random), id(&mut random));
        Box::pin(async move { Ok(contender.decide(&key, id).await.is_some()) })
    }
}

/// No two runs repeat an id.
fn fresh(seed: u64) -> Random {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Random(seed ^ u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or_default())
}

fn key(random: &mut Random) -> String {
    format!("user:{:010}", random.next() % KEYS)
}

fn id(random: &mut Random) -> u128 {
    (u128::from(random.next()) << 64) | u128::from(random.next())
}

/// One insertion of rows as the store makes them.
async fn insert(client: Arc<Client>, caller: u64, call: u64) -> Result<bool> {
    let mut random = Random((caller << 32) | call);
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for _ in 0..BATCH {
        let (key, id) = (key(&mut random), id(&mut random));
        names.push(format!("tollgate:bench:{{{key}}}:once:{id:032x}"));
        values.push(format!(
            "[]\n[\"{id:032x}\",\"1\",1800000300000000,1800000000000000,\
             [1,1099511627776,1000,1000000],[1,1099511627776,1000,1000000,1800000000000000]]"
        ));
    }
    let expires = vec![1_800_000_360_000_000_i64; BATCH];
    let columns: [(&(dyn ToSql + Sync), Type); 3] =
        [(&names, Type::TEXT_ARRAY), (&values, Type::TEXT_ARRAY), (&expires, Type::INT8_ARRAY)];
    let inserted = client.execute_typed(INSERT, &columns).await;
    inserted.map(|rows| rows == BATCH as u64).map_err(|error| error.to_string())
}

async fn connect(options: &Options, is_relaxed: bool) -> Result<Client> {
    let text = |error: tokio_postgres::Error| error.to_string();
    let (client, driver) = tokio_postgres::connect(options.url(), NoTls).await.map_err(text)?;
    tokio::spawn(async move { drop(driver.await) });
    if is_relaxed {
        client.batch_execute("SET synchronous_commit = off").await.map_err(text)?;
    }
    Ok(client)
}
