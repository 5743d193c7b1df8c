//! What is compared: the store with its callers, and the loop.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::runtime::Runtime;
use tollgate::algorithm::TokenBucket;
use tollgate::sqlite::{Config, Durability, Sqlite};
use tollgate::store::{CallContext, Store};
use tollgate::{Admission, Clock, Limit, Quota, RequestId, SystemClock};

use super::Options;
use crate::Result;

/// One contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A count per key, one row and one commit per turn, by one thread.
    Loop(Durability),
    /// The store, with a number of concurrent callers, on one key or many, with or without request
    /// ids.
    Store { callers: u64, is_hot: bool, has_ids: bool, durability: Durability },
}

/// The result of one run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

const FULL: Durability = Durability::Full;
const RELAXED: Durability = Durability::Relaxed;

impl Kind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Loop(FULL),
        Self::Store { callers: 1, is_hot: false, has_ids: false, durability: FULL },
        Self::Store { callers: 64, is_hot: false, has_ids: false, durability: FULL },
        Self::Store { callers: 64, is_hot: true, has_ids: false, durability: FULL },
        Self::Store { callers: 64, is_hot: false, has_ids: true, durability: FULL },
        Self::Loop(RELAXED),
        Self::Store { callers: 64, is_hot: false, has_ids: false, durability: RELAXED },
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Loop(_) => "a loop, one row per commit",
            Self::Store { callers: 1, .. } => "Tollgate, 1 caller",
            Self::Store { is_hot: true, .. } => "Tollgate, 64 callers, one hot key",
            Self::Store { has_ids: true, .. } => "Tollgate, 64 callers, with request ids",
            Self::Store { .. } => "Tollgate, 64 callers",
        }
    }

    pub(crate) fn durability(self) -> &'static str {
        if self.is_relaxed() { "relaxed" } else { "full" }
    }

    fn is_relaxed(self) -> bool {
        let (Self::Loop(durability) | Self::Store { durability, .. }) = self;
        durability == RELAXED
    }

    /// Whether this is what the other is compared with.
    pub(crate) fn is_loop_for(self, other: Self) -> bool {
        matches!(self, Self::Loop(_)) && self.is_relaxed() == other.is_relaxed()
    }

    pub(crate) fn run(self, path: &Path, options: Options, runtime: &Runtime) -> Result<Sample> {
        match self {
            Self::Loop(_) => one_by_one(path, self.is_relaxed(), options),
            Self::Store { callers, is_hot, has_ids, durability } => {
                let config = Config::new(path).durability(durability);
                let store = Sqlite::open(config).map_err(|error| error.to_string())?;
                let keys = if is_hot { 1 } else { options.keys };
                runtime.block_on(together(Arc::new(store), callers, (keys, has_ids), options))
            }
        }
    }
}

/// The loop: the simplest implementation, with a prepared statement.
fn one_by_one(path: &Path, is_relaxed: bool, options: Options) -> Result<Sample> {
    let run = || -> rusqlite::Result<Vec<Duration>> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(
            None,
            "synchronous",
            if is_relaxed { "normal" } else { "full" },
        )?;
        connection.execute_batch("CREATE TABLE counts (key TEXT PRIMARY KEY, n INTEGER) STRICT")?;
        let mut count = connection.prepare(
            "INSERT INTO counts VALUES (?1, 1) ON CONFLICT (key) DO UPDATE SET n = n + 1",
        )?;
        let (mut waits, mut random) = (Vec::new(), Random(1));
        let end = Instant::now() + options.length;
        loop {
            let called = Instant::now();
            if called >= end {
                return Ok(waits);
            }
            count.execute([key(random.next() % options.keys)])?;
            waits.push(called.elapsed());
        }
    };
    let waits = run().map_err(|error| error.to_string())?;
    Ok(sample(waits, options.length))
}

/// Callers, each of which calls again after its reply.
async fn together(
    store: Arc<Sqlite>,
    callers: u64,
    (keys, has_ids): (u64, bool),
    options: Options,
) -> Result<Sample> {
    let quota = TokenBucket::new(1 << 40, Quota::per_second(1 << 20)).map_err(|e| e.to_string())?;
    let limit = Limit::new("bench", quota).map_err(|error| error.to_string())?;
    let end = Instant::now() + options.length;
    let tasks = (0..callers).map(|caller| {
        let (store, limit) = (Arc::clone(&store), limit.clone());
        tokio::spawn(async move {
            let (clock, mut random, mut waits) = (SystemClock::new(), Random(caller), Vec::new());
            loop {
                let (subject, id) = (key(random.next() % keys), format!("{:016x}", random.next()));
                let called = Instant::now();
                if called >= end {
                    return Ok(waits);
                }
                let charges = [limit.charge(&subject)];
                let mut admission = Admission::of(&charges);
                if has_ids {
                    admission = admission.request_id(RequestId::new(&id)?);
                }
                store.admit(&admission, CallContext::at(clock.now())).await?;
                waits.push(called.elapsed());
            }
        })
    });
    let mut all = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        let waits: tollgate::Result<Vec<Duration>> = task.await.map_err(|e| e.to_string())?;
        all.extend(waits.map_err(|error| error.to_string())?);
    }
    store.close().await;
    Ok(sample(all, options.length))
}

fn key(number: u64) -> String {
    format!("user:{number:010}")
}

fn sample(mut waits: Vec<Duration>, length: Duration) -> Sample {
    waits.sort_unstable();
    let at = |percent: usize| {
        let last = waits.len().saturating_sub(1);
        waits.get((waits.len() * percent / 100).min(last)).copied().unwrap_or_default()
    };
    #[expect(clippy::cast_precision_loss, reason = "a report of a few digits")]
    let count = waits.len() as f64;
    Sample { per_second: count / length.as_secs_f64(), p50: at(50), p99: at(99) }
}

/// The run in the middle, by decisions per second.
pub(crate) fn median(samples: &mut [Sample]) -> Sample {
    samples.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

/// SplitMix64, seeded with the number of the caller.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0.wrapping_mul(0xD134_2543_DE82_EF95);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^ (z >> 31)
    }
}
