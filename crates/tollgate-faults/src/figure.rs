//! Figures: what an outage may cost at most, each with its bound.

mod doctor;
mod fleet;
mod postgres;
mod redis;

use core::fmt;
use core::pin::Pin;
use std::time::Duration;

use tollgate_core::algorithm::{Anchor, FixedWindow};
use tollgate_core::store::{BoxStore, Store};
use tollgate_core::{Limit, Limiter, OutageMode, Quota};

use crate::{Load, Result, Sample, Setup};

/// A running measurement.
pub type Running = Pin<Box<dyn Future<Output = Result<Outcome>> + Send>>;

/// A bound.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name on the command line.
    pub name: &'static str,
    /// What is to be met.
    pub bound: &'static str,
    /// The stores whose servers it starts.
    pub stores: &'static [crate::Store],
    /// About how long it takes.
    pub takes: Duration,
    /// Starts the servers, causes the fault, and measures.
    pub run: fn(Setup) -> Running,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Each part, and whether it met the bound.
    pub parts: Vec<(String, bool)>,
    /// The measured numbers in short.
    pub measured: String,
}

/// A figure with its outcome.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The name of the figure.
    pub name: &'static str,
    bound: &'static str,
    outcome: Outcome,
    /// Whether every part met the bound.
    pub is_met: bool,
}

const REDIS: &[crate::Store] = &[crate::Store::Redis];
const CLUSTER: &[crate::Store] = &[crate::Store::Cluster];
const POSTGRES: &[crate::Store] = &[crate::Store::Postgres];
const BOTH: &[crate::Store] = &[crate::Store::Redis, crate::Store::Postgres];

/// All figures.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "lost-connection",
        bound: "one lost connection to Redis at a round trip of 4 ms: at most 20 calls and 50 ms \
                without the store, 15 times of 15",
        stores: REDIS,
        takes: Duration::from_secs(26),
        run: |_| Box::pin(redis::lost_connection()),
    },
    Figure {
        name: "reconnect",
        bound: "a Redis that was killed answers again: the first call is decided by it within 250 \
                ms, 10 times of 10",
        stores: REDIS,
        takes: Duration::from_secs(25),
        run: |_| Box::pin(redis::reconnect()),
    },
    Figure {
        name: "dead-node",
        bound: "one of three masters of a cluster is stopped, or killed: at least 99 % of the \
                calls for keys of the others are decided by the store",
        stores: CLUSTER,
        takes: Duration::from_secs(13),
        run: |_| Box::pin(redis::dead_node()),
    },
    Figure {
        name: "slow-store",
        bound: "a round trip of 120 ms, longer than the deadline: `open` and `local` refuse no \
                call, no answer takes over 150 ms, and after detection the median is under 20 ms",
        stores: BOTH,
        takes: Duration::from_secs(10),
        run: |setup| Box::pin(fleet::slow_store(setup)),
    },
    Figure {
        name: "near-deadline",
        bound: "a round trip of 60 ms to Redis, and 100 callers, on one key or each on its own: at \
                least 95 % of the calls are decided by the store",
        stores: REDIS,
        takes: Duration::from_secs(7),
        run: |_| Box::pin(redis::near_deadline()),
    },
    Figure {
        name: "freeze-redis",
        bound: "a frozen Redis: calls are decided at once within 300 ms, 20 times of 20",
        stores: REDIS,
        takes: Duration::from_secs(20),
        run: |_| Box::pin(redis::freeze()),
    },
    Figure {
        name: "freeze-postgres",
        bound: "a frozen PostgreSQL with a round that waits for a row: calls are decided at once \
                within 300 ms, 20 times of 20",
        stores: POSTGRES,
        takes: Duration::from_secs(20),
        run: |_| Box::pin(postgres::freeze()),
    },
    Figure {
        name: "refused-uncharged",
        bound: "75 callers at 24 and 60 ms, on one key or each call on its own: no call that got \
                `queue_full` or `conflict_exhausted` was charged",
        stores: BOTH,
        takes: Duration::from_secs(35),
        run: |setup| Box::pin(fleet::refused_uncharged(setup)),
    },
    Figure {
        name: "doctor",
        bound: "at 1, 5, 24 and 60 ms, the verdict of `tollgate doctor` is that of a fleet with \
                100 callers, on one key and on many",
        stores: BOTH,
        takes: Duration::from_secs(70),
        run: |setup| Box::pin(doctor::agrees(setup)),
    },
    Figure {
        name: "cold-keys",
        bound: "75 callers on one hot key of PostgreSQL at a round trip of 24 ms: at least 99 % of \
                the calls of 15 callers on keys of their own are decided by the store",
        stores: POSTGRES,
        takes: Duration::from_secs(7),
        run: |setup| Box::pin(fleet::cold_keys(setup)),
    },
    Figure {
        name: "unrelated-keys",
        bound: "eleven locked hot rows of PostgreSQL: every call for another key is decided by \
                the store",
        stores: POSTGRES,
        takes: Duration::from_secs(3),
        run: |_| Box::pin(postgres::locks()),
    },
];

impl Outcome {
    fn part(&mut self, text: impl Into<String>, is_met: bool) {
        self.parts.push((text.into(), is_met));
    }

    /// With the figure that it belongs to.
    #[must_use]
    pub fn of(self, figure: &Figure) -> Finding {
        let Figure { name, bound, .. } = *figure;
        let is_met = !self.parts.is_empty() && self.parts.iter().all(|(_, is_met)| *is_met);
        Finding { name, bound, outcome: self, is_met }
    }
}

impl Finding {
    /// The line of the table.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let Self { name, bound, outcome, .. } = self;
        format!("| {name} | {bound} | {} | {} |\n", outcome.measured, self.verdict())
    }

    const fn verdict(&self) -> &'static str {
        if self.is_met { "met" } else { "missed" }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} ({})", self.name, self.verdict(), self.bound)?;
        for (part, is_met) in &self.outcome.parts {
            writeln!(f, "  {}: {part}", if *is_met { "met" } else { "missed" })?;
        }
        write!(f, "  {}", self.outcome.measured)
    }
}

const MONTH: Duration = Duration::from_secs(30 * 86_400);

/// A limiter over a store.
fn limiter(store: impl Store + 'static) -> Limiter<BoxStore> {
    Limiter::new(BoxStore::new(store))
}

/// A load on a limiter, for subjects with many units that do not come back while it runs.
fn load(store: impl Store + 'static, subjects: Vec<String>) -> Result<Load> {
    Ok(Load::new(limiter(store), many()?, subjects))
}

fn many() -> Result<Limit> {
    let window = FixedWindow::new(Quota::new(100_000_000, MONTH), Anchor::FirstHit)?;
    Ok(Limit::new("faults", window)?.on_outage(OutageMode::Open))
}

fn subjects(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("subject-{number}")).collect()
}

/// After how long the first call was decided without the store in less than 20 ms.
fn detected(samples: &[Sample], from: tokio::time::Instant) -> Option<Duration> {
    let fast = samples.iter().filter(|sample| {
        let is_degraded = matches!(sample.answer, crate::Answer::Degraded(_));
        is_degraded && sample.took < Duration::from_millis(20)
    });
    fast.map(|sample| sample.ended().saturating_duration_since(from)).min()
}

/// Adds a part for each freeze, and the slowest detection.
fn all_detected(found: &[Option<Duration>]) -> Outcome {
    let mut outcome = Outcome::default();
    for detected in found {
        let text = detected.map_or_else(|| "never".to_owned(), crate::sample::ms);
        let in_time = detected.is_some_and(|detected| detected <= Duration::from_millis(300));
        outcome.part(text, in_time);
    }
    let met = outcome.parts.iter().filter(|(_, is_met)| *is_met).count();
    let slowest = found.iter().flatten().max().copied().unwrap_or_default();
    outcome.measured = format!("{met} of {}; {} at most", found.len(), crate::sample::ms(slowest));
    outcome
}
