//! `tollgate doctor`: whether a store is fit for limits.
#![expect(clippy::print_stdout, reason = "it prints its findings")]

mod checklist;
mod load;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate::algorithm::Gcra;
use tollgate::dynamodb::DynamoDb;
use tollgate::redis::Redis;
use tollgate::store::{BoxStore, CallContext, Capability, Store};
use tollgate::{Clock, Limit, Limiter, Quota, SystemClock};
use tollgate_server::config::{Config, Setting, Sources, hide_password};
use tollgate_server::store;

use super::Failed;

/// Calls that are timed; concurrent callers, and how many of them may pass.
const CALLS: usize = 50;
const CALLERS: u64 = 100;
const MAY_PASS: u64 = 30;
/// A larger difference of clocks makes times in responses wrong.
const SKEW_MAX_MS: u64 = 1_000;

/// Examines the store of a configuration file, or the one at this address.
pub(crate) fn run(store: Option<&str>, file: Option<&Path>) -> Result<(), Failed> {
    let flags: Vec<_> =
        store.map(|address| (Setting::Store, address.to_owned())).into_iter().collect();
    // Without a file, only the store matters: the environment is ignored.
    let config = match (store, file) {
        (Some(address), None) => {
            Config::of_text(&[(Setting::Store, address.to_owned())], |_| None, None)?
        }
        _ => Config::read(&Sources { flags: &flags, file })?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let warnings = runtime.block_on(examine(&config))?;
    if warnings.is_empty() {
        println!("Verdict: fit for limits.");
        return Ok(());
    }
    Err(format!("Verdict: fix this first.\n- {}", warnings.join("\n- ")).into())
}

async fn examine(config: &Config) -> Result<Vec<String>, Failed> {
    let address = &config.store;
    println!("Store: {}", hide_password(address));
    let store = store::open(address, config.retries).await?;
    let capability = store.capability();
    print_capability(&capability);
    let store = Arc::new(store);
    let patient = Limiter::builder(Arc::clone(&store)).deadline(Duration::from_secs(5));
    let limiter = Arc::new(patient.build());
    let mut warnings = Vec::new();
    if store::scheme_of(address) == Some("dynamodb") {
        warnings.extend(DynamoDb::inspect(address.parse()?).await?);
    }
    let round_trip = time_calls(&limiter).await?;
    compare_clocks(&limiter, &mut warnings).await?;
    probe_atomicity(&limiter, &mut warnings).await?;
    if !capability.in_process {
        load::measure(config, round_trip, &mut warnings).await?;
    }
    if store::scheme_of(address).is_some_and(|scheme| scheme.starts_with("redis")) {
        let inspection = Redis::open(address.parse()?)?.inspect().await?;
        for server in &inspection.servers {
            let version = server.version.as_deref().unwrap_or("of unknown version");
            println!("Server: {} {version}", server.product.as_deref().unwrap_or("redis"));
        }
        warnings.extend(inspection.warnings());
    }
    let found = checklist::examine(config, round_trip, capability.in_process);
    for advice in &found.advice {
        println!("Consider: {advice}");
    }
    warnings.extend(found.warnings);
    Ok(warnings)
}

fn print_capability(capability: &Capability) {
    let yes = |is: bool| if is { "yes" } else { "no" };
    println!(
        "Exact: {}. Survives a restart of this process: {}. Request ids: {}.",
        yes(capability.exact),
        yes(capability.durable),
        yes(capability.idempotent)
    );
}

fn probe(limit: u64) -> Result<Limit, Failed> {
    Ok(Limit::new("doctor", Gcra::new(Quota::per_day(limit))?)?)
}

/// A subject that no other run has used.
fn subject() -> String {
    format!("doctor-{}-{}", std::process::id(), SystemClock::new().now())
}

/// The median and the longest of several reads in sequence.
async fn time_calls(limiter: &Limiter<Arc<BoxStore>>) -> Result<Duration, Failed> {
    let limit = probe(1)?;
    let mut took = Vec::with_capacity(CALLS);
    // The first call connects, and is not timed.
    limiter.forecast(limit.charge("doctor")).await?;
    for _ in 0..CALLS {
        let start = Instant::now();
        limiter.forecast(limit.charge("doctor")).await?;
        took.push(start.elapsed());
    }
    took.sort_unstable();
    let (median, slowest) = (took.get(CALLS / 2).copied(), took.last().copied());
    let (median, slowest) = (median.unwrap_or_default(), slowest.unwrap_or_default());
    println!("Round trip: median {median:?}, maximum {slowest:?}.");
    Ok(median)
}

/// The difference between the clocks of the store and of this machine.
async fn compare_clocks(
    limiter: &Limiter<Arc<BoxStore>>,
    warnings: &mut Vec<String>,
) -> Result<(), Failed> {
    if !limiter.store().capability().own_clock {
        println!("Clock: of this machine.");
        return Ok(());
    }
    let (limit, clock) = (probe(1)?, SystemClock::new());
    let before = clock.now();
    let loaded =
        limiter.store().load(&[limit.charge("doctor")], CallContext::store_clock()).await?;
    let middle = before.midpoint(clock.now());
    let skew_ms = loaded.now.reading().abs_diff(middle) / 1_000;
    println!("Clock: of the store; it differs from this machine by {skew_ms} ms.");
    if skew_ms > SKEW_MAX_MS {
        warnings.push(format!(
            "clocks differ by {skew_ms} ms: limits stay exact, but times in responses are wrong; \
             run NTP"
        ));
    }
    Ok(())
}

/// Concurrent callers on one key: exactly the limit must pass.
async fn probe_atomicity(
    limiter: &Arc<Limiter<Arc<BoxStore>>>,
    warnings: &mut Vec<String>,
) -> Result<(), Failed> {
    let limit = Arc::new(probe(MAY_PASS)?);
    let subject: Arc<str> = subject().into();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (limiter, limit, subject) =
            (Arc::clone(limiter), Arc::clone(&limit), Arc::clone(&subject));
        callers.spawn(async move { limiter.check(limit.charge(&subject)).await });
    }
    let (mut passed, mut failed, mut reason) = (0, 0, None);
    while let Some(answer) = callers.join_next().await {
        match answer? {
            Ok(decision) if decision.degraded.is_some() => failed += 1,
            Ok(decision) => passed += u64::from(decision.is_allowed()),
            Err(error) => {
                failed += 1;
                reason.get_or_insert(error);
            }
        }
    }
    println!(
        "Atomicity: {passed} of {CALLERS} concurrent callers passed a limit of {MAY_PASS}; \
         {failed} failed."
    );
    if failed == 0 {
        limiter.reset(limit.charge(&subject)).await?;
    }
    if passed > MAY_PASS || (failed == 0 && passed != MAY_PASS) {
        warnings.push("the store is not exact under concurrency: do not use it".to_owned());
    } else if failed > 0 {
        let why = reason.map(|error| format!(" ({error})")).unwrap_or_default();
        warnings.push(format!("{failed} of {CALLERS} concurrent calls were not decided{why}"));
    }
    Ok(())
}
