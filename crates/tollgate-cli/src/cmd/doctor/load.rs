//! What the callers of a server would notice: many at once, on one key and on many keys, with the
//! deadline and the breaker of the configuration.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate::store::BoxStore;
use tollgate::{Error, Limiter};

use crate::cmd::Failed;

/// Callers at once, each with one call after another.
const CALLERS: usize = 100;
const TIME: Duration = Duration::from_secs(1);
/// The wait after a call that the store did not decide.
const PAUSE: Duration = Duration::from_millis(10);
/// More than one call in this number without the store is a warning.
const TOLERATED: usize = 100;

/// How the calls are spread.
#[derive(Clone, Copy)]
enum Keys {
    One,
    /// One for each caller.
    Many,
}

/// The result of all calls.
#[derive(Default)]
struct Outcome {
    took: Vec<Duration>,
    /// Calls that were decided without the store, and those that were refused.
    degraded: usize,
    refused: usize,
    /// The first reason.
    error: Option<Error>,
}

/// Calls for a second each, and reports what to expect.
pub(super) async fn measure(
    limiter: &Arc<Limiter<Arc<BoxStore>>>,
    deadline: Duration,
    warnings: &mut Vec<String>,
) -> Result<(), Failed> {
    for (keys, name) in [(Keys::One, "one key"), (Keys::Many, "many keys")] {
        let outcome = call(limiter, keys).await?;
        let all = outcome.took.len();
        let (p50, p99) = (outcome.percentile(50), outcome.percentile(99));
        let without = outcome.degraded + outcome.refused;
        println!(
            "{CALLERS} callers on {name}: {all} calls in a second, median {p50:?}, 99 % within \
             {p99:?}; {} were decided by the store.",
            all - without
        );
        if without > all / TOLERATED {
            warnings.push(outcome.warning(name, deadline));
        }
    }
    Ok(())
}

impl Outcome {
    fn percentile(&self, percent: usize) -> Duration {
        self.took.get(self.took.len() * percent / 100).copied().unwrap_or_default()
    }

    fn warning(&self, name: &str, deadline: Duration) -> String {
        let percent = 100 * (self.degraded + self.refused) / self.took.len().max(1);
        let why = self.error.as_ref().map_or_else(
            || format!("the store did not answer within the deadline of {deadline:?}"),
            ToString::to_string,
        );
        format!(
            "with {CALLERS} callers on {name}, {percent} % of the decisions were made without the \
             store: {} by the outage mode, {} refused ({why})",
            self.degraded, self.refused
        )
    }
}

async fn call(limiter: &Arc<Limiter<Arc<BoxStore>>>, keys: Keys) -> Result<Outcome, Failed> {
    let limit = Arc::new(super::probe(1_000_000_000)?);
    let (own, end) = (super::subject(), Instant::now() + TIME);
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let subject = match keys {
            Keys::One => own.clone(),
            Keys::Many => format!("{own}-{caller}"),
        };
        let (limiter, limit) = (Arc::clone(limiter), Arc::clone(&limit));
        callers.spawn(async move {
            let mut outcome = Outcome::default();
            while Instant::now() < end {
                let start = Instant::now();
                let answer = limiter.check(limit.charge(&subject)).await;
                outcome.took.push(start.elapsed());
                match answer {
                    Ok(decision) if decision.degraded.is_none() => continue,
                    Ok(_) => outcome.degraded += 1,
                    Err(error) => {
                        outcome.refused += 1;
                        outcome.error.get_or_insert(error);
                    }
                }
                // It may come at once, and would be most of the calls.
                tokio::time::sleep(PAUSE).await;
            }
            outcome
        });
    }
    let mut all = Outcome::default();
    while let Some(outcome) = callers.join_next().await {
        let Ok(outcome) = outcome else { continue };
        all.took.extend(outcome.took);
        all.degraded += outcome.degraded;
        all.refused += outcome.refused;
        all.error = all.error.or(outcome.error);
    }
    all.took.sort_unstable();
    Ok(all)
}
