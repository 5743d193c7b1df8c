//! Figures of a fleet of three servers.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::block_in_place;
use tollgate_core::OutageMode;
use tollgate_test_servers::Mode;

use super::Outcome;
use crate::audit::audit;
use crate::backend::Backend;
use crate::sample::ms;
use crate::traffic::{Keys, Traffic};
use crate::{Fault, Fleet, Result, Scenario, Setup, Store};

const STORES: [Store; 2] = [Store::Redis, Store::Postgres];
const AT_ONCE: Duration = Duration::from_millis(20);

pub(super) async fn slow_store(setup: Setup) -> Result<Outcome> {
    let (mut outcome, mut measured) = (Outcome::default(), Vec::new());
    for store in STORES {
        let rows = Scenario { store, fault: Fault::Latency(120) }.run(&setup).await?;
        let mut worst = (0, Duration::ZERO, Duration::ZERO);
        for row in rows.iter().filter(|row| row.mode != OutageMode::Closed) {
            let refused: usize = row.answers.refused.values().sum();
            let after = &row.after_detection;
            let is_met = refused == 0
                && row.is_in_time()
                && row.detected.is_some()
                && after.median < AT_ONCE;
            outcome
                .part(format!("{}: {}; after detection: {after}", row.name(), row.answers), is_met);
            worst =
                (worst.0.max(refused), worst.1.max(row.answers.longest), worst.2.max(after.median));
        }
        measured.push(format!(
            "{}: {} refused, longest answer {}, median {}",
            store.name(),
            worst.0,
            ms(worst.1),
            ms(worst.2)
        ));
    }
    outcome.measured = measured.join("; ");
    Ok(outcome)
}

pub(super) async fn refused_uncharged(setup: Setup) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut all, mut charged) = (0, 0);
    for store in STORES {
        for latency in [24, 60] {
            let backend = block_in_place(|| Backend::start(store, true))?;
            let fleet = Arc::new(block_in_place(|| Fleet::start(&setup.program, &backend.url()?))?);
            fleet.settle().await?;
            let traffic = Arc::new(Traffic::new(Arc::clone(&fleet), setup.seed));
            backend.set(Mode::Latency(Duration::from_millis(latency)))?;
            let running = Arc::clone(&traffic);
            running.run_callers(75, Keys::One, Duration::from_secs(3)).await;
            backend.set(Mode::Pass)?;
            fleet.settle().await?;
            let calls = traffic.take();
            let units = audit(&fleet, OutageMode::Open, &calls).await?;
            let answers = crate::Summary::of(calls.iter().map(|call| &call.sample));
            outcome.part(
                format!(
                    "{} at {latency} ms: {} of {} refused calls were charged, {} units twice; \
                     {answers}",
                    store.name(),
                    units.behind_refusals,
                    units.refusals,
                    units.doubled
                ),
                units.behind_refusals == 0 && units.doubled == 0,
            );
            all += units.refusals;
            charged += units.behind_refusals;
        }
    }
    outcome.measured = format!("{charged} of {all} refused calls");
    Ok(outcome)
}
