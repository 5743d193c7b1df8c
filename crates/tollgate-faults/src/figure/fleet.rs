//! Figures of a fleet of three servers.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::block_in_place;
use tollgate_core::OutageMode;
use tollgate_test_servers::Mode;

use super::Outcome;
use crate::audit::{Units, audit};
use crate::backend::Backend;
use crate::sample::ms;
use crate::traffic::{Keys, Traffic, name_of_key};
use crate::{Fault, Fleet, Kind, Result, Scenario, Setup, Store, Summary};

const STORES: [Store; 2] = [Store::Redis, Store::Postgres];
const AT_ONCE: Duration = Duration::from_millis(20);
/// At least this share of the calls for cold keys by the store, in hundredths of a percent.
const COLD_MIN: usize = 9_900;
/// The most refused calls whose keys are read.
const AUDITED: usize = 2_000;

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

pub(super) async fn cold_keys(setup: Setup) -> Result<Outcome> {
    let backend = block_in_place(|| Backend::start(Store::Postgres, true))?;
    let fleet = Arc::new(block_in_place(|| Fleet::start(&setup.program, &backend.url()?))?);
    fleet.settle().await?;
    let [hot, cold] = [(); 2].map(|()| Arc::new(Traffic::new(Arc::clone(&fleet), setup.seed)));
    let run = async |time| {
        tokio::join!(
            Arc::clone(&hot).run_callers(75, Keys::One, time),
            Arc::clone(&cold).run_callers(15, Keys::Cold, time),
        )
    };
    // All connections are there: at this round trip a caller has no time to make one.
    run(Duration::from_millis(300)).await;
    [&hot, &cold].iter().for_each(|traffic| drop(traffic.take()));
    backend.set(Mode::Latency(Duration::from_millis(24)))?;
    run(Duration::from_secs(4)).await;
    let [hot, cold] = [hot, cold].map(|traffic| {
        let calls = traffic.take();
        Summary::of(calls.iter().map(|call| &call.sample))
    });
    let share = cold.store_share();
    let mut outcome = Outcome::default();
    outcome.part(format!("hot key: {hot}; cold keys: {cold}"), share >= COLD_MIN);
    outcome.measured = format!(
        "{}.{:02} % of {}; of the hot key {}.{:02} %",
        share / 100,
        share % 100,
        cold.calls,
        hot.store_share() / 100,
        hot.store_share() % 100
    );
    Ok(outcome)
}

pub(super) async fn refused_uncharged(setup: Setup) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut all, mut charged) = (0, 0);
    for store in STORES {
        for latency in [24, 60] {
            for keys in [Keys::OneWithIds, Keys::OwnOfCalls] {
                let (units, answers) = slow_callers(&setup, store, latency, keys).await?;
                outcome.part(
                    format!(
                        "{} at {latency} ms, {keys:?}: {} of {} refused calls were charged, {} \
                         units twice; {answers}",
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
    }
    outcome.measured = format!("{charged} of {all} refused calls");
    Ok(outcome)
}

/// What became of the units of callers that are busy while the store is slow.
async fn slow_callers(
    setup: &Setup,
    store: Store,
    latency: u64,
    keys: Keys,
) -> Result<(Units, Summary)> {
    let backend = block_in_place(|| Backend::start(store, true))?;
    let fleet = Arc::new(block_in_place(|| Fleet::start(&setup.program, &backend.url()?))?);
    fleet.settle().await?;
    let traffic = Arc::new(Traffic::new(Arc::clone(&fleet), setup.seed));
    backend.set(Mode::Latency(Duration::from_millis(latency)))?;
    Arc::clone(&traffic).run_callers(75, keys, Duration::from_secs(3)).await;
    backend.set(Mode::Pass)?;
    fleet.settle().await?;
    let calls = traffic.take();
    let answers = Summary::of(calls.iter().map(|call| &call.sample));
    if let Keys::OneWithIds = keys {
        return Ok((audit(&fleet, OutageMode::Open, &calls).await?, answers));
    }
    let mut units = Units::default();
    let refused = calls.iter().filter(|call| call.sample.answer.is_contention());
    for call in refused.take(AUDITED) {
        let key = name_of_key(call.sample.subject);
        units.refusals += 1;
        units.behind_refusals += fleet.charged(Kind::Identified, OutageMode::Open, &key).await?;
    }
    Ok((units, answers))
}
