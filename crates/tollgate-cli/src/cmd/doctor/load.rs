//! What the callers of a fleet would notice: many at once, on one key and on many keys, over three
//! connections of their own to the store, with the deadline and the breaker of the configuration.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate::limiter::{Degradation, Observer};
use tollgate::store::{BoxStore, Store as _};
use tollgate::{Code, Error, Limit, Limiter};
use tollgate_server::Config;
use tollgate_server::store;

use crate::cmd::Failed;

/// Servers that share the store: each has its own queues, connections and breaker.
const SERVERS: usize = 3;
/// Callers at once of all servers, each with one call after another.
const CALLERS: usize = 100;
const TIME: Duration = Duration::from_secs(1);
/// More than one call in this number without the store is a warning.
const TOLERATED: usize = 100;

/// How the calls are spread.
#[derive(Clone, Copy)]
enum Keys {
    One,
    /// One for each caller.
    Many,
}

/// Why a decision was made without the store: the first reason.
#[derive(Clone, Debug, Default)]
struct Reason(Arc<OnceLock<String>>);

impl Observer for Reason {
    fn degraded(&self, event: &Degradation<'_>) {
        self.0.get_or_init(|| format!("{}: {}", event.code.as_str(), event.reason));
    }
}

/// The result of all calls.
#[derive(Default)]
struct Outcome {
    took: Vec<Duration>,
    /// Calls that were decided by the outage mode.
    degraded: usize,
    /// Calls that were refused because another server or caller had the key until their deadline.
    waited: usize,
    /// Calls that were refused for other reasons.
    refused: usize,
    /// The first refusal.
    error: Option<Error>,
    reason: Reason,
}

/// Calls for a second each, and reports what to expect. `round_trip` is what a call takes alone.
pub(super) async fn measure(
    config: &Config,
    round_trip: Duration,
    warnings: &mut Vec<String>,
) -> Result<(), Failed> {
    let mut stores = Vec::with_capacity(SERVERS);
    for _ in 0..SERVERS {
        stores.push(Arc::new(store::open(&config.store, config.retries).await?));
    }
    for keys in [Keys::One, Keys::Many] {
        let outcome = call(&stores, config, keys, round_trip).await?;
        outcome.print(keys);
        if outcome.without() > outcome.took.len() / TOLERATED {
            warnings.push(outcome.warning(keys));
        }
    }
    for store in stores {
        store.close().await;
    }
    Ok(())
}

impl Keys {
    const fn name(self) -> &'static str {
        match self {
            Self::One => "one key",
            Self::Many => "many keys",
        }
    }
}

impl Outcome {
    fn percentile(&self, percent: usize) -> Duration {
        self.took.get(self.took.len() * percent / 100).copied().unwrap_or_default()
    }

    const fn without(&self) -> usize {
        self.degraded + self.waited + self.refused
    }

    fn print(&self, keys: Keys) {
        let all = self.took.len();
        println!(
            "{CALLERS} callers on {}: {all} calls in a second, median {:?}, 99 % within {:?}; {} \
             were decided by the store.",
            keys.name(),
            self.percentile(50),
            self.percentile(99),
            all - self.without()
        );
        println!(
            "Locks: {} of these waited for others on their key until their deadline.",
            self.waited
        );
    }

    /// What will happen, in plain words, and why.
    fn warning(&self, keys: Keys) -> String {
        let percent = 100 * self.without() / self.took.len().max(1);
        let is_slow = self.refused == 0 || self.error.as_ref().is_some_and(is_late);
        let what = match (keys, is_slow) {
            (Keys::One, true) => "decisions on hot keys will time out",
            (Keys::Many, true) => "decisions will time out, whatever the key",
            (_, false) => "calls will be refused",
        };
        let mut parts = Vec::new();
        if self.degraded > 0 {
            let reason = self.reason.0.get().map_or("no reason was given", String::as_str);
            parts.push(format!("{} by the outage mode ({reason})", self.degraded));
        }
        let refused = self.waited + self.refused;
        if let Some(error) = self.error.as_ref().filter(|_| refused > 0) {
            parts.push(format!("{refused} refused ({error})"));
        }
        format!(
            "{what}: with {CALLERS} callers on {}, {percent} % of the calls will be decided \
             without the store, {}",
            keys.name(),
            parts.join(", ")
        )
    }

    fn add(&mut self, other: Self) {
        self.took.extend(other.took);
        self.degraded += other.degraded;
        self.waited += other.waited;
        self.refused += other.refused;
        self.error = self.error.take().or(other.error);
    }
}

/// Whether an error means that the call took too long.
fn is_late(error: &Error) -> bool {
    is_contention(error) || error.code() == Code::Timeout
}

fn is_contention(error: &Error) -> bool {
    matches!(error.code(), Code::QueueFull | Code::ConflictExhausted)
}

async fn call(
    stores: &[Arc<BoxStore>],
    config: &Config,
    keys: Keys,
    round_trip: Duration,
) -> Result<Outcome, Failed> {
    let limit = Arc::new(super::probe(1_000_000_000)?);
    let reason = Reason::default();
    let limiter = |store: &Arc<BoxStore>| {
        let failure = config.failure;
        let limiter = Limiter::builder(Arc::clone(store))
            .deadline(failure.deadline)
            .breaker(failure.breaker)
            .max_in_flight(failure.max_in_flight)
            .observer(reason.clone());
        Arc::new(limiter.build())
    };
    let servers: Vec<_> = stores.iter().map(limiter).collect();
    let (own, end) = (super::subject(), Instant::now() + TIME);
    let mut callers = JoinSet::new();
    for (caller, limiter) in (0..CALLERS).zip(servers.iter().cycle()) {
        let subject = match keys {
            Keys::One => own.clone(),
            Keys::Many => format!("{own}-{caller}"),
        };
        let (limiter, limit) = (Arc::clone(limiter), Arc::clone(&limit));
        callers.spawn(async move { call_until(end, &limiter, &limit, &subject, round_trip).await });
    }
    let mut all = Outcome { reason, ..Outcome::default() };
    while let Some(outcome) = callers.join_next().await {
        all.add(outcome?);
    }
    all.took.sort_unstable();
    Ok(all)
}

/// One caller.
async fn call_until(
    end: Instant,
    limiter: &Limiter<Arc<BoxStore>>,
    limit: &Limit,
    subject: &str,
    round_trip: Duration,
) -> Outcome {
    let mut outcome = Outcome::default();
    while Instant::now() < end {
        let start = Instant::now();
        let answer = limiter.check(limit.charge(subject)).await;
        outcome.took.push(start.elapsed());
        match answer {
            Ok(decision) if decision.degraded.is_none() => continue,
            Ok(_) => outcome.degraded += 1,
            Err(error) => {
                let count =
                    if is_contention(&error) { &mut outcome.waited } else { &mut outcome.refused };
                *count += 1;
                outcome.error.get_or_insert(error);
            }
        }
        // An answer without the store may come at once. Without a pause, callers that get such
        // answers would make most of the calls, and the share would say nothing.
        tokio::time::sleep_until(start + round_trip).await;
    }
    outcome
}
