//! The sliding window on one to three masters: one hot key and distinct keys, the CPU of each
//! decision, and the masters that 400,000 decisions per second would need.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Limit, Limiter, Quota};
use tollgate_redis::Redis as Store;
use tollgate_test_servers::{Redis, RedisCluster};

use crate::Result;
use crate::closed::{self, Loop};
use crate::measure::{Pick, rotation};
use crate::report::Markdown;
use crate::usage::Usage;

const CALLERS: usize = 256;
const KEYS: u64 = 20_480;
/// Decisions per second that the masters are to give.
const WANTED: f64 = 400_000.0;
/// Units of the window, in a day: never exhausted.
const UNITS: u64 = 1 << 32;

/// The masters of a row.
enum Masters {
    One(Redis),
    Several(RedisCluster),
}

impl Masters {
    fn start(count: usize) -> Result<Self> {
        match count {
            1 => Redis::start().map(Self::One),
            _ => RedisCluster::start(count).map(Self::Several),
        }
        .map_err(|error| error.to_string())
    }

    fn url(&self) -> String {
        match self {
            Self::One(redis) => redis.url(),
            Self::Several(cluster) => {
                let hosts: Vec<_> =
                    cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
                format!("redis-cluster://{}", hosts.join(","))
            }
        }
    }

    fn usage(&self) -> Usage {
        match self {
            Self::One(redis) => Usage::of_all([redis.pid()]),
            Self::Several(cluster) => Usage::of_all(cluster.nodes().iter().map(|node| node.pid())),
        }
    }
}

/// A call that is under way.
type Call = Pin<Box<dyn Future<Output = Result<bool>> + Send>>;

struct Row<'a> {
    count: usize,
    masters: &'a Masters,
    limiter: Arc<Limiter<Store>>,
    is_hot: bool,
    /// Each round, and the CPU of the masters in it.
    samples: Vec<(Loop, u64)>,
}

/// Runs the cells that are wanted, and returns the table.
pub(crate) fn run(
    (rounds, time): (usize, Duration),
    wants: impl Fn(&str) -> bool,
) -> Result<Option<String>> {
    let runtime = super::runtime(None)?;
    let counts: Vec<usize> = (1..=3).filter(|count| wants(&format!("sliding-{count}"))).collect();
    let masters: Vec<Masters> =
        counts.iter().map(|count| Masters::start(*count)).collect::<Result<_>>()?;
    let limit = Limit::sliding_window("bench", Quota::new(UNITS, Duration::from_secs(86_400)));
    let limit = Arc::new(limit.map_err(|error| error.to_string())?);
    let mut rows = Vec::new();
    for (count, masters) in counts.iter().zip(&masters) {
        let _entered = runtime.enter();
        let store = masters.url().parse().and_then(Store::open);
        let store = store.map_err(|error| error.to_string())?;
        let limiter = Limiter::builder(store).deadline(Duration::from_secs(5)).build();
        let limiter = Arc::new(limiter);
        for is_hot in [true, false] {
            let limiter = Arc::clone(&limiter);
            rows.push(Row { count: *count, masters, limiter, is_hot, samples: Vec::new() });
        }
    }
    for round in 0..=rounds {
        for place in rotation(rows.len(), round) {
            let row = &mut rows[place];
            let usage = row.masters.usage();
            let before = usage.cpu_ns()?;
            let caller = |caller| row.caller(caller, &limit);
            let done = runtime.block_on(closed::run(CALLERS, time, caller))?;
            let used = usage.cpu_ns()?.saturating_sub(before);
            eprintln!("round {round}: sliding-{}: {:.0} per second", row.count, done.per_second());
            // In the first, keys are made and connections opened.
            if round > 0 {
                row.samples.push((done, used));
            }
        }
    }
    Ok((!rows.is_empty()).then(|| table(&rows)))
}

impl Row<'_> {
    fn caller(&self, caller: usize, limit: &Arc<Limit>) -> impl FnMut(u64) -> Call + Send + use<> {
        let (limiter, limit) = (Arc::clone(&self.limiter), Arc::clone(limit));
        let is_hot = self.is_hot;
        move |call| {
            let (limiter, limit) = (Arc::clone(&limiter), Arc::clone(&limit));
            let number = (caller as u64 + call * CALLERS as u64) % KEYS;
            let key = if is_hot { "user:hot".to_owned() } else { format!("user:{number:05}") };
            let call = async move {
                let decision = limiter.check(limit.charge(&key)).await;
                let decision = decision.map_err(|error| error.to_string())?;
                match decision.is_allowed() && decision.degraded.is_none() {
                    true => Ok(true),
                    false => Err(format!("an unexpected decision: {decision:?}")),
                }
            };
            Box::pin(call) as Call
        }
    }
}

fn table(rows: &[Row<'_>]) -> String {
    let mut table = Markdown::new(&["masters", "keys"]);
    let columns = [
        "decisions/s here",
        "p50 ms",
        "p99 ms",
        "CPU µs of Redis per decision",
        "of the library",
        "masters for 400,000/s",
        "cores of callers for 400,000/s",
    ];
    columns.into_iter().for_each(|column| table.column(column));
    let mut text = table.head();
    for row in rows {
        let median = |of: &dyn Fn(&(Loop, u64)) -> f64| {
            Pick::Median.of(row.samples.iter().map(of).collect())
        };
        let each = |ns: u64, done: &Loop| ns as f64 / 1e3 / done.calls.max(1) as f64;
        let redis = median(&|(done, used)| each(*used, done));
        let library = median(&|(done, _)| each(done.own_cpu_ns, done));
        let cores = |micros: f64| (WANTED * micros / 1e6).ceil();
        // One key is in one slot, which one master has.
        let masters = match (row.is_hot, cores(redis)) {
            (true, cores) if cores > 1.0 => "not on one key".to_owned(),
            (_, cores) => format!("{cores:.0}"),
        };
        text += &table.row(&[
            row.count.to_string(),
            if row.is_hot { "one hot key" } else { "20,480" }.to_owned(),
            format!("{:.0}", median(&|(done, _)| done.per_second())),
            format!("{:.2}", median(&|(done, _)| done.millis(50))),
            format!("{:.2}", median(&|(done, _)| done.millis(99))),
            format!("{redis:.2}"),
            format!("{library:.2}"),
            masters,
            format!("{:.0}", cores(library)),
        ]);
    }
    text + "\n"
}
