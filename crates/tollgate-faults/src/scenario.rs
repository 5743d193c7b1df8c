//! One fault on one store: a fleet of three servers under load, and a row for each outage mode.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinSet, block_in_place};
use tokio::time::{Instant, sleep};
use tollgate_testkit::rng::Rng;

use crate::Result;
use crate::audit::audit;
use crate::backend::{Backend, Store};
use crate::fault::Fault;
use crate::fleet::{Fleet, MODES};
use crate::row::Row;
use crate::timer_delay::TimerDelay;
use crate::traffic::Traffic;

/// About how long servers take to start, and to decide again after the fault.
const START: Duration = Duration::from_secs(2);

/// A fault on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The store.
    pub store: Store,
    /// What fails.
    pub fault: Fault,
}

/// How scenarios are run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The binary `tollgate`.
    pub program: String,
    /// Which calls are made, and which faults a chaos run has.
    pub seed: u64,
    /// How long the load runs before a fault.
    pub warm_up: Duration,
    /// How long a fault lasts.
    pub hold: Duration,
    /// How long the load runs after it.
    pub recovery: Duration,
}

impl Setup {
    /// The times of the whole suite.
    #[must_use]
    pub const fn whole(program: String, seed: u64) -> Self {
        let (warm_up, hold) = (Duration::from_millis(500), Duration::from_secs(2));
        Self { program, seed, warm_up, hold, recovery: Duration::from_millis(1_500) }
    }

    /// Times for a test.
    #[must_use]
    pub const fn short(program: String, seed: u64) -> Self {
        let (warm_up, hold) = (Duration::from_millis(300), Duration::from_millis(1_200));
        Self { program, seed, warm_up, hold, recovery: Duration::from_millis(600) }
    }
}

impl Scenario {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> String {
        format!("{}-{}", self.store.name(), self.fault.name())
    }

    /// About how long it takes.
    #[must_use]
    pub const fn takes(self, setup: &Setup) -> Duration {
        let hold = match self.fault {
            Fault::Chaos(seconds) => Duration::from_secs(seconds),
            Fault::Reset | Fault::Flushed => Duration::ZERO,
            _ => setup.hold,
        };
        let load = setup.warm_up.saturating_add(hold).saturating_add(setup.recovery);
        START.saturating_add(load)
    }

    /// Starts the servers, causes the fault under load, and counts: a row for each mode.
    ///
    /// # Errors
    /// When a server does not start, or the store does not decide again afterwards.
    pub async fn run(self, setup: &Setup) -> Result<Vec<Row>> {
        let Self { store, fault } = self;
        let mut backend = block_in_place(|| Backend::start(store, fault.needs_proxies(store)))?;
        if fault == Fault::FailOver {
            block_in_place(|| backend.add_replica())?;
        }
        let url = backend.url()?;
        if store == Store::DynamoDb {
            block_in_place(|| migrate(&setup.program, &url))?;
        }
        let fleet = Arc::new(block_in_place(|| Fleet::start(&setup.program, &url))?);
        fleet.settle().await?;
        let delay = TimerDelay::start();
        let mut rng = Rng::new(setup.seed);
        let traffic = Arc::new(Traffic::new(Arc::clone(&fleet), rng.next_u64()));
        // It ends with this, whatever happens.
        let mut load = JoinSet::new();
        load.spawn(Arc::clone(&traffic).run());
        sleep(setup.warm_up).await;
        let begun = Instant::now();
        fault.strike((&backend, &fleet), setup.hold, &mut rng).await?;
        let ended = Instant::now();
        sleep(setup.recovery).await;
        traffic.stop();
        load.join_all().await;
        let delay = delay.longest();
        fleet.settle().await?;
        let calls = traffic.take();
        let mut rows = Vec::new();
        for mode in MODES {
            let units = audit(&fleet, mode, &calls).await?;
            rows.push(Row::new((store, fault, mode), (units, delay), &calls, (begun, ended)));
        }
        Ok(rows)
    }
}

/// Makes the table, which the store does not.
fn migrate(program: &str, url: &str) -> Result<()> {
    let mut command = Command::new(program);
    command.env_clear().env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    let output = command.args(["migrate", "--store", url]).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into()),
    }
}
