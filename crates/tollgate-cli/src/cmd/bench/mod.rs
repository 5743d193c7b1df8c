//! `tollgate bench`: load at a fixed rate, and whether the limit was kept under it.
//!
//! Open loop: a request is due at its time, whatever became of those before it, and its latency counts
//! from then. A server that stalls cannot make the load wait for it and so look fast.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it tells how far it is")]

mod args;
mod load;
mod pace;
mod quota;
mod report;
mod tally;
mod wire;

use std::io::{IsTerminal, Write, stderr};
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, SystemClock};

pub(crate) use self::args::Bench;
use self::load::{Keys, Load};
use self::quota::Limits;
use self::report::{Kept, Report, spoken};
use self::wire::{Asking, Secret};
use super::Failed;

/// How often it tells how far it is.
const TELL_EVERY: Duration = Duration::from_millis(500);

pub(crate) fn run(bench: &Bench) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(measure(bench))?;
    if bench.json {
        println!("{}", report.json());
    } else {
        println!("{}", report.text());
    }
    if report.kept.broken() {
        return Err("more was admitted than the quota grants".into());
    }
    match report.tally.decided() {
        0 => Err("nothing was decided".into()),
        _ => Ok(()),
    }
}

async fn measure(bench: &Bench) -> Result<Report<'_>, Failed> {
    let target = bench.target()?;
    let protocol = target.protocol;
    let token = bench.server.token.clone().map(Secret);
    let (policy, cost) = (bench.policy.clone(), bench.cost);
    let asking = Arc::new(Asking { target, policy, cost, token });
    // Keys of this run, which nobody has charged before.
    let fresh = format!("bench-{}-{}", std::process::id(), SystemClock::new().now());
    let names = match &bench.key {
        Some(key) => vec![key.clone()],
        None => (0..bench.keys).map(|number| format!("{fresh}-{number}")).collect(),
    };
    let first = names.first().cloned().unwrap_or_default();
    let before = before(bench, &first, &fresh).await;
    let pace = (bench.rate, bench.duration);
    let mut load = Load::start(&asking, Keys::new(names), bench.connections, pace).await?;
    watch(&mut load, bench).await?;
    let took = load.pace.elapsed();
    let kept = match before {
        Ok((limits, from)) => kept(bench, &load.keys, &limits, (from, &fresh)).await,
        Err(why) => Kept::Unknown(why),
    };
    let (tally, due, sent) = (load.so_far()?, load.pace.total, load.pace.taken());
    Ok(Report { bench, protocol, tally, due, sent, took, kept })
}

/// The limits, and the time before anything is sent; or why they are not known.
async fn before(bench: &Bench, key: &str, fresh: &str) -> Result<(Limits, u64), String> {
    let asked = async {
        let limits = Limits::ask(&bench.server, &bench.policy, key).await?;
        let now = quota::time(&bench.server, &bench.policy, fresh).await?;
        Ok::<_, Failed>((limits, now.earliest()))
    };
    match asked.await {
        Ok((limits, _)) if limits.shadow => Err("the policy is a shadow and never denies".into()),
        Ok(known) => Ok(known),
        Err(error) => Err(format!("{error} (--server says where to ask for the limits)")),
    }
}

/// Compares what was admitted with what may have been until now.
async fn kept(bench: &Bench, keys: &Keys, limits: &Limits, (from, fresh): (u64, &str)) -> Kept {
    let fresh = format!("{fresh}-after");
    let until = match quota::time(&bench.server, &bench.policy, &fresh).await {
        Ok(until) => until.latest(),
        Err(error) => return Kept::Unknown(error.to_string()),
    };
    let (most, all) = keys.granted();
    Kept::Checked {
        keys: u64::try_from(keys.count()).unwrap_or(u64::MAX),
        may_admit: limits.most(from, until),
        most: most.saturating_mul(bench.cost),
        units: all.saturating_mul(bench.cost),
    }
}

/// Waits for the end, and tells how far it is if somebody looks.
async fn watch(load: &mut Load, bench: &Bench) -> Result<(), Failed> {
    if !stderr().is_terminal() {
        load.finish(bench.duration).await;
        return Ok(());
    }
    let mut tell = tokio::time::interval(TELL_EVERY);
    loop {
        tokio::select! {
            () = load.finish(bench.duration) => break,
            _ = tell.tick() => {}
        }
        let tally = load.so_far()?;
        let worst = spoken(tally.latency.value_at_percentile(99.0));
        let line = format!(
            "{:>4} s  {} of {}  allowed {}  denied {}  not decided {}  p99 {worst}",
            load.pace.elapsed().as_secs(),
            tally.decided() + tally.undecided(),
            load.pace.total,
            tally.allowed,
            tally.denied + tally.never,
            tally.undecided(),
        );
        // Back to the start of the line, and nothing left of a longer one.
        eprint!("\r{line}\x1b[K");
        stderr().flush()?;
    }
    eprintln!();
    Ok(())
}
