//! The server over Redis and PostgreSQL next to the library on the same store: what the server
//! adds to a decision.

use std::sync::Arc;
use std::time::Duration;

use tollgate::algorithm::Gcra;
use tollgate::store::Store;
use tollgate::{Limit, Limiter, Quota};
use tollgate_test_servers::resp::Reply;
use tollgate_test_servers::{Postgres, Redis, Server};

use super::audit::{compare, spent};
use super::bed::{Bed, KEYS, key};
use super::kinds::{BURST, Kind, PERIOD, Protocol, UNITS, addr};
use super::load::{Counted, Resp, redis_benchmark, wrk};
use super::table::{Figure, grouped};
use super::target::{BENCH, RANDOM, Target};
use super::{DEADLINE, grpc};
use crate::Result;
use crate::closed;
use crate::measure::{Pick, rotation};
use crate::report::Markdown;
use crate::usage::Usage;

/// Callers of the library, and connections or streams of the server.
const CALLERS: usize = 256;
/// Connections that the callers of gRPC share.
const CHANNELS: usize = 8;
/// Commands that are sent to find the rate.
const TRIAL: u64 = 5_000;
/// How long the library is called before it is measured.
const WARM_UP: Duration = Duration::from_millis(200);

/// How a decision is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Library,
    Resp,
    Http,
    Grpc,
}

const ALL: [(How, &str, &str); 4] = [
    (How::Library, "library", "the library alone"),
    (How::Resp, "resp", "the server, RESP"),
    (How::Http, "http", "the server, HTTP"),
    (How::Grpc, "grpc", "the server, gRPC"),
];

/// One round: decisions per second, and microseconds of CPU per decision of the process that
/// decides and of the store.
#[derive(Clone, Copy, Debug)]
struct Sample {
    per_second: f64,
    cpu: f64,
    store_cpu: f64,
}

/// A store, and who decides on it.
struct Field<'a, S> {
    bed: &'a Bed,
    name: &'static str,
    /// The process of the store.
    pid: u32,
    limiter: Arc<Limiter<S>>,
    server: Server,
}

/// Runs the selected cells.
pub(super) fn run(bed: &Bed) -> Result<Option<String>> {
    if !bed.options.wants_group("stores") {
        return Ok(None);
    }
    let redis = Redis::start().map_err(|error| error.to_string())?;
    let postgres = crate::postgres::durable(tollgate_test_servers::PgVersion::V15)?;
    let mut rows = over_redis(bed, &redis)?;
    rows.extend(over_postgres(bed, &postgres)?);
    Ok((!rows.is_empty()).then(|| table(&rows)))
}

type Row = (&'static str, How, &'static str, Vec<Sample>);

fn over_redis(bed: &Bed, redis: &Redis) -> Result<Vec<Row>> {
    let _entered = bed.runtime.enter();
    let store = redis.url().parse().and_then(tollgate_redis::Redis::open);
    let store = store.map_err(|error| error.to_string())?;
    field(bed, ("Redis", redis.pid()), store, &redis.url())?.run()
}

fn over_postgres(bed: &Bed, postgres: &Postgres) -> Result<Vec<Row>> {
    let url = postgres.url();
    let store = bed.runtime.block_on(async {
        let config: tollgate::postgres::Config = url.parse()?;
        tollgate::postgres::Postgres::connect(config.operation_timeout(DEADLINE)).await
    });
    let store = store.map_err(|error| error.to_string())?;
    field(bed, ("PostgreSQL", postgres.pid()), store, &url)?.run()
}

fn field<'a, S: Store + 'static>(
    bed: &'a Bed,
    (name, pid): (&'static str, u32),
    store: S,
    url: &str,
) -> Result<Field<'a, S>> {
    let limiter = Arc::new(Limiter::builder(store).deadline(DEADLINE).build());
    let server = Kind::tollgate(&bed.programs, &format!("'{url}'")).start()?;
    Ok(Field { bed, name, pid, limiter, server })
}

impl<S: Store + 'static> Field<'_, S> {
    fn run(&self) -> Result<Vec<Row>> {
        let id = |how: &str| format!("stores-{}-{how}", self.name.to_lowercase());
        let wanted = ALL.into_iter().filter(|(_, how, _)| self.bed.options.wants(&id(how)));
        let mut rows: Vec<Row> =
            wanted.map(|(how, _, title)| (self.name, how, title, Vec::new())).collect();
        for round in 0..self.bed.options.rounds {
            for place in rotation(rows.len(), round) {
                let (name, how, _, samples) = &mut rows[place];
                let sample =
                    self.measure(*how).map_err(|error| format!("{name}, {how:?}: {error}"))?;
                eprintln!("round {round}: {name}, {how:?}: {sample:?}");
                samples.push(sample);
            }
        }
        self.bed.runtime.block_on(self.limiter.close());
        Ok(rows)
    }

    fn measure(&self, how: How) -> Result<Sample> {
        let prefix = self.bed.prefix();
        // Connections to the store are open before the process of each is counted.
        if how == How::Library {
            self.library(&self.bed.prefix(), WARM_UP)?;
            return self.library(&prefix, self.bed.options.time);
        }
        let count = self.scaled(self.resp(&self.bed.prefix(), TRIAL)?);
        let (server, store) = (Usage::of(self.server.pid()), Usage::of(self.pid));
        let before = (server.cpu_ns()?, store.cpu_ns()?);
        let counted = match how {
            How::Resp => self.resp(&prefix, count)?,
            How::Http => self.http(&prefix)?,
            _ => self.grpc(&prefix)?,
        };
        let used =
            (server.cpu_ns()?.saturating_sub(before.0), store.cpu_ns()?.saturating_sub(before.1));
        let look = |number| Target::Tollgate.look(BENCH, &key(&prefix, number), "");
        let read = |reply: &Reply| Target::Tollgate.spent(reply, BURST);
        compare(spent(addr(&self.server, Protocol::Resp), KEYS, look, read)?, &counted)?;
        Ok(Sample::of(counted.requests as f64, counted.seconds, used))
    }

    fn scaled(&self, counted: Counted) -> u64 {
        let rate = counted.requests as f64 / counted.seconds.max(1e-3);
        (rate * self.bed.options.time.as_secs_f64()) as u64
    }

    fn library(&self, prefix: &str, time: Duration) -> Result<Sample> {
        let quota = Quota::new(UNITS, Duration::from_secs(PERIOD));
        let rule = Gcra::with_burst(quota, BURST).map_err(|error| error.to_string())?;
        let limit = Arc::new(Limit::new("library", rule).map_err(|error| error.to_string())?);
        let caller = |caller: usize| {
            let (limiter, limit) = (Arc::clone(&self.limiter), Arc::clone(&limit));
            let prefix = prefix.to_owned();
            move |call: u64| {
                let (limiter, limit) = (Arc::clone(&limiter), Arc::clone(&limit));
                let key = key(&prefix, number(caller, call));
                async move {
                    let decision = limiter.check(limit.charge(&key)).await;
                    let decision = decision.map_err(|error| error.to_string())?;
                    match decision.is_allowed() && decision.degraded.is_none() {
                        true => Ok(true),
                        false => Err(format!("an unexpected decision: {decision:?}")),
                    }
                }
            }
        };
        let store = Usage::of(self.pid);
        let before = store.cpu_ns()?;
        let done = self.bed.runtime.block_on(closed::run(CALLERS, time, caller))?;
        let used = (done.own_cpu_ns, store.cpu_ns()?.saturating_sub(before));
        Ok(Sample::of(done.calls as f64, done.seconds, used))
    }

    fn resp(&self, prefix: &str, count: u64) -> Result<Counted> {
        let addr = addr(&self.server, Protocol::Resp);
        let key = format!("{prefix}:{RANDOM}");
        let words = ["TG.ACQUIRE", BENCH, &key];
        let connections = CALLERS as u64;
        let load = Resp { addr, words: &words, keys: KEYS, connections, pipeline: 1 };
        redis_benchmark(&self.bed.programs, load, count)
    }

    fn http(&self, prefix: &str) -> Result<Counted> {
        let script = Target::Tollgate.wrk_script(BENCH, prefix, (KEYS, 1));
        let script = self.bed.file("store.lua", script.as_bytes())?;
        let addr = addr(&self.server, Protocol::Http);
        wrk(&self.bed.programs, addr, &script, CALLERS as u64, self.bed.options.time)
    }

    /// By a client of this program: `h2load` cannot rotate through keys.
    fn grpc(&self, prefix: &str) -> Result<Counted> {
        let addr = addr(&self.server, Protocol::Grpc);
        let done = self.bed.runtime.block_on(async {
            let mut channels = Vec::new();
            for _ in 0..CHANNELS {
                channels.push(grpc::Client::connect(addr).await?);
            }
            let caller = |caller: usize| {
                let (client, prefix) = (channels[caller % CHANNELS].clone(), prefix.to_owned());
                move |call: u64| {
                    let mut client = client.clone();
                    let key = key(&prefix, number(caller, call));
                    async move {
                        let (path, message) = Target::Tollgate.grpc(BENCH, &key, BURST);
                        let reply = client.call(path, message.framed()).await?;
                        let allowed = super::wire::is_allowed(&reply);
                        if allowed { Ok(true) } else { Err("a request was denied".to_owned()) }
                    }
                }
            };
            closed::run(CALLERS, self.bed.options.time, caller).await
        })?;
        Ok(Counted { requests: done.calls, seconds: done.seconds, failed: 0, under_way: 0 })
    }
}

/// The number of the key of a call: no two callers share one.
fn number(caller: usize, call: u64) -> u64 {
    (caller as u64 + call * CALLERS as u64) % (KEYS / CALLERS as u64 * CALLERS as u64)
}

impl Sample {
    fn of(decisions: f64, seconds: f64, (cpu_ns, store_ns): (u64, u64)) -> Self {
        let each = |ns: u64| ns as f64 / 1e3 / decisions.max(1.0);
        Self { per_second: decisions / seconds, cpu: each(cpu_ns), store_cpu: each(store_ns) }
    }
}

fn table(rows: &[Row]) -> String {
    let mut table = Markdown::new(&["store", "what decides"]);
    let columns = ["decisions/s", "CPU µs per decision", "of the store", "both, × the library"];
    columns.into_iter().for_each(|column| table.column(column));
    let mut text = table.head();
    for (store, _, title, samples) in rows {
        let library = rows.iter().find(|(one, how, ..)| one == store && *how == How::Library);
        let ratio = library.map(|(.., library)| {
            let both = |sample: &Sample| sample.cpu + sample.store_cpu;
            let pairs = samples.iter().zip(library);
            Pick::Median.of(pairs.map(|(one, base)| both(one) / both(base)).collect())
        });
        let figure = |of: fn(&Sample) -> f64| Figure::of(samples.iter().map(of));
        text += &table.row(&[
            (*store).to_owned(),
            (*title).to_owned(),
            grouped(figure(|sample| sample.per_second).median),
            figure(|sample| sample.cpu).text(),
            figure(|sample| sample.store_cpu).text(),
            ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")),
        ]);
    }
    text + "\n"
}
