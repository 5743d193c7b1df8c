//! The scenarios, by name.

mod postgres;
mod redis;

use core::pin::Pin;
use std::time::Duration;

use tollgate_core::algorithm::{Anchor, FixedWindow};
use tollgate_core::store::{BoxStore, Store};
use tollgate_core::{Limit, Limiter, OutageMode, Quota};

use crate::{Load, Result};

/// The rows of a table.
pub type Rows = Pin<Box<dyn Future<Output = Result<Vec<String>>> + Send>>;

/// One fault on one kind of server.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What happens.
    pub about: &'static str,
    /// Starts the servers, causes the fault, and returns the rows.
    pub run: fn() -> Rows,
}

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "redis-lost-connection",
        about: "the server closes the connection (CLIENT KILL) at a round trip of 4 ms",
        run: || Box::pin(redis::lost_connection()),
    },
    Scenario {
        name: "redis-cluster-node",
        about: "one of three masters is stopped, then killed",
        run: || Box::pin(redis::dead_node()),
    },
    Scenario {
        name: "redis-slow",
        about: "round trips of 50, 60 and 120 ms, deadline 100 ms",
        run: || Box::pin(redis::slow()),
    },
    Scenario {
        name: "redis-freeze",
        about: "the server stops answering for a second",
        run: || Box::pin(redis::freeze()),
    },
    Scenario {
        name: "postgres-slow",
        about: "round trips of 24, 60 and 120 ms, deadline 100 ms",
        run: || Box::pin(postgres::slow()),
    },
    Scenario {
        name: "postgres-freeze",
        about: "the server stops answering while a round waits for a row",
        run: || Box::pin(postgres::freeze()),
    },
    Scenario {
        name: "postgres-locks",
        about: "another session locks the rows of eleven hot keys for a second",
        run: || Box::pin(postgres::locks()),
    },
];

const MONTH: Duration = Duration::from_secs(30 * 86_400);

/// A limiter over a store.
fn limiter(store: impl Store + 'static) -> Limiter<BoxStore> {
    Limiter::new(BoxStore::new(store))
}

/// Many units that do not come back while a scenario runs.
fn many(mode: OutageMode) -> Result<Limit> {
    let window = FixedWindow::new(Quota::new(100_000_000, MONTH), Anchor::FirstHit)?;
    Ok(Limit::new("faults", window)?.on_outage(mode))
}

fn subjects(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("subject-{number}")).collect()
}

/// Units that were charged on all subjects so far.
async fn charged(load: &Load, limit: &Limit, subjects: &[String]) -> Result<u64> {
    let mut units = 0;
    for subject in subjects {
        let standing = load.limiter().peek(limit.charge(subject)).await?;
        units += standing.limit - standing.remaining;
    }
    Ok(units)
}

fn ms(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}
