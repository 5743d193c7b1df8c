//! What `tollgate doctor` says about a store, and what a fleet gets from it.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::block_in_place;
use tollgate_test_servers::Mode;

use super::Outcome;
use crate::backend::Backend;
use crate::traffic::{Keys, Traffic};
use crate::{Fleet, Result, Setup, Store, Summary};

const CALLERS: usize = 100;
const TIME: Duration = Duration::from_secs(2);
/// A fleet that gets less from its store, in hundredths of a percent, needs another one.
const FIT_MIN: usize = 9_900;

pub(super) async fn agrees(setup: Setup) -> Result<Outcome> {
    let (mut outcome, mut agreeing) = (Outcome::default(), 0);
    for store in [Store::Redis, Store::Postgres] {
        for latency in [1, 5, 24, 60] {
            let backend = block_in_place(|| Backend::start(store, true))?;
            let url = backend.url()?;
            let fleet = Arc::new(block_in_place(|| Fleet::start(&setup.program, &url))?);
            fleet.settle().await?;
            backend.set(Mode::Latency(Duration::from_millis(latency)))?;
            let mut shares = Vec::new();
            for keys in [Keys::One, Keys::Many] {
                let traffic = Arc::new(Traffic::new(Arc::clone(&fleet), setup.seed));
                Arc::clone(&traffic).run_callers(CALLERS, keys, TIME).await;
                let calls = traffic.take();
                shares.push(Summary::of(calls.iter().map(|call| &call.sample)).store_share());
            }
            drop(fleet);
            let (is_fit, said) = block_in_place(|| examine(&setup.program, &url))?;
            let fleet_is_fit = shares.iter().all(|share| *share >= FIT_MIN);
            let shares: Vec<String> = shares
                .iter()
                .map(|share| format!("{}.{:02} %", share / 100, share % 100))
                .collect();
            let is_met = is_fit == fleet_is_fit;
            agreeing += usize::from(is_met);
            outcome.part(
                format!(
                    "{} at {latency} ms: the fleet got {} on one key, on many keys, from the \
                     store; doctor: {said}",
                    store.name(),
                    shares.join(", ")
                ),
                is_met,
            );
        }
    }
    outcome.measured = format!("{agreeing} of {}", outcome.parts.len());
    Ok(outcome)
}

/// Whether the doctor calls a store fit, and its lines about callers.
fn examine(program: &str, url: &str) -> Result<(bool, String)> {
    let output = Command::new(program).args(["doctor", "--store", url]).env_clear().output()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter(|line| {
        line.contains("callers on") || line.contains("Verdict") || line.starts_with("- ")
    });
    Ok((output.status.success(), lines.collect::<Vec<_>>().join(" / ")))
}
