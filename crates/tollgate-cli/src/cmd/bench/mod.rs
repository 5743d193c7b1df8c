//! `tollgate bench`: sends requests at a fixed rate, and verifies that no more than the limit was
//! admitted.
//!
//! The load is an open loop: each request is due at its instant, independent of earlier responses,
//! and its latency counts from there. A stalled server cannot slow the load down and so look fast.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints progress and the result")]

mod args;
mod connection;
mod load;
mod quota;
mod report;
mod schedule;
mod totals;

use std::io::{IsTerminal, Write, stderr};
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, SystemClock};

pub(crate) use self::args::Bench;
use self::connection::Template;
use self::load::{Keys, Load};
use self::quota::Limits;
use self::report::{Report, Verification, describe};
use super::{Failed, Refused, code};

/// How often progress is printed.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) fn run(bench: &Bench) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(measure(bench))?;
    if bench.json {
        println!("{}", report.json());
    } else {
        println!("{}", report.text());
    }
    if report.verification.failed() {
        let message = "more was admitted than the quota grants".to_owned();
        return Err(Refused { code: code::DENIED, message }.into());
    }
    match report.totals.decided() {
        0 => Err("nothing was decided".into()),
        _ => Ok(()),
    }
}

async fn measure(bench: &Bench) -> Result<Report<'_>, Failed> {
    let target = bench.target()?;
    let protocol = target.protocol;
    let template = Arc::new(Template { target, bench: bench.clone() });
    // Keys that were never charged.
    let unique = format!("bench-{}-{}", std::process::id(), SystemClock::new().now());
    let names = match &bench.key {
        Some(key) => vec![key.clone()],
        None => (0..bench.keys).map(|number| format!("{unique}-{number}")).collect(),
    };
    let first = names.first().cloned().unwrap_or_default();
    let before = before(bench, &first, &unique).await;
    let mut load = Load::start(&template, Keys::new(names)).await?;
    run_to_end(&mut load, bench).await?;
    let took = load.schedule.elapsed();
    let verification = match before {
        Ok((limits, from)) => verify(bench, &load.keys, &limits, (from, &unique)).await,
        Err(reason) => Verification::Skipped(reason),
    };
    let (totals, due, sent) = (load.totals()?, load.schedule.total, load.schedule.taken());
    Ok(Report { bench, protocol, totals, due, sent, took, verification })
}

/// The limits, and the server's time before the load; or why they are not known.
async fn before(bench: &Bench, key: &str, unique: &str) -> Result<(Limits, u64), String> {
    let known = async {
        let limits = Limits::fetch(&bench.server, &bench.policy, key).await?;
        let now = quota::time(&bench.server, &bench.policy, unique).await?;
        // Certainly not after the reading.
        Ok::<_, Failed>((limits, now.saturating_sub(quota::MILLI)))
    };
    match known.await {
        Ok((limits, _)) if limits.shadow => {
            Err("the policy is in shadow mode and never denies".into())
        }
        Ok(known) => Ok(known),
        Err(error) => Err(format!("{error} (--server sets where the limits are requested)")),
    }
}

/// Compares the admitted units with the bound since the start of the load.
async fn verify(
    bench: &Bench,
    keys: &Keys,
    limits: &Limits,
    (from, unique): (u64, &str),
) -> Verification {
    let unique = format!("{unique}-after");
    let until = match quota::time(&bench.server, &bench.policy, &unique).await {
        Ok(until) => until,
        Err(error) => return Verification::Skipped(error.to_string()),
    };
    let (most, all) = keys.granted();
    Verification::Done {
        keys: u64::try_from(keys.count()).unwrap_or(u64::MAX),
        bound: limits.bound(from, until),
        most: most.saturating_mul(bench.cost),
        units: all.saturating_mul(bench.cost),
    }
}

/// Waits for the end of the load, and prints progress on a terminal.
async fn run_to_end(load: &mut Load, bench: &Bench) -> Result<(), Failed> {
    if !stderr().is_terminal() {
        load.finish(bench.duration).await;
        return Ok(());
    }
    let mut progress = tokio::time::interval(PROGRESS_INTERVAL);
    loop {
        tokio::select! {
            () = load.finish(bench.duration) => break,
            _ = progress.tick() => {}
        }
        let totals = load.totals()?;
        let worst = describe(totals.latency.value_at_percentile(99.0));
        let line = format!(
            "{:>4} s  {} of {}  allowed {}  denied {}  not decided {}  p99 {worst}",
            load.schedule.elapsed().as_secs(),
            totals.decided() + totals.undecided(),
            load.schedule.total,
            totals.allowed,
            totals.denied + totals.never,
            totals.undecided(),
        );
        // Overwrites the line.
        eprint!("\r{line}\x1b[K");
        stderr().flush()?;
    }
    eprintln!();
    Ok(())
}
