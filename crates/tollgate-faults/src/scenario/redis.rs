//! Faults of Redis, single and as a cluster.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_core::OutageMode;
use tollgate_redis::Redis;
use tollgate_test_servers::{FaultProxy, Mode, Redis as Server, RedisCluster};

use super::{charged, limiter, many, ms, subjects};
use crate::load::Answer;
use crate::{Load, Result, Sample, Summary};

const WARM_UP: Duration = Duration::from_millis(300);

async fn connected(url: &str) -> Result<Redis> {
    Ok(Redis::connect(url.parse()?).await?)
}

pub(super) async fn lost_connection() -> Result<Vec<String>> {
    let server = Server::start()?;
    let proxy = FaultProxy::to(server.addr())?;
    let mut rows = Vec::new();
    for attempt in 0..15 {
        let store = connected(&format!("redis://{}", proxy.addr())).await?;
        proxy.set(Mode::Latency(Duration::from_millis(4)))?;
        let load = Load::new(limiter(store), many(OutageMode::Open)?, subjects(50));
        let period = Duration::from_micros(1_300);
        let kill = async {
            sleep(WARM_UP).await;
            match attempt % 2 {
                0 => server.client()?.call(&["CLIENT", "KILL", "TYPE", "normal"])?.ok().map(drop),
                _ => proxy.reset(),
            }
        };
        let (_, killed) = tokio::join!(load.run(period, Duration::from_millis(1_700)), kill);
        killed?;
        let samples = load.take();
        let (count, span) = degraded_span(&samples);
        rows.push(format!("{count} calls without the store within {}", ms(span)));
        proxy.set(Mode::Pass)?;
        load.limiter().close().await;
    }
    Ok(rows)
}

/// How many calls the mode decided, and the time from the first of them to the last.
fn degraded_span(samples: &[Sample]) -> (usize, Duration) {
    let degraded = || samples.iter().filter(|sample| matches!(sample.answer, Answer::Degraded(_)));
    let ends = || degraded().map(|sample| sample.begun + sample.took);
    let span = ends().max().zip(ends().min()).map(|(last, first)| last - first);
    (degraded().count(), span.unwrap_or_default())
}

pub(super) async fn dead_node() -> Result<Vec<String>> {
    let mut rows = Vec::new();
    for is_killed in [false, true] {
        let cluster = RedisCluster::start(3)?;
        for node in cluster.nodes() {
            let command = ["CONFIG", "SET", "cluster-require-full-coverage", "no"];
            node.client()?.call(&command)?.ok()?;
        }
        let proxies = cluster.behind_proxies()?;
        let hosts: Vec<String> = proxies.iter().map(|proxy| proxy.addr().to_string()).collect();
        let store = connected(&format!("redis-cluster://{}", hosts.join(","))).await?;
        for proxy in &proxies {
            proxy.set(Mode::Latency(Duration::from_millis(4)))?;
        }
        let limit = many(OutageMode::Open)?;
        let names = subjects(60);
        let owners = names.iter().map(|name| cluster.owner_of_key(&limit.key(name).to_text()));
        let owners = owners.collect::<Result<Vec<_>, _>>()?;
        let load = Load::new(limiter(store), limit, names);
        let node = cluster.nodes().first().ok_or("a cluster without nodes")?;
        load.run(Duration::from_millis(1), WARM_UP).await;
        load.take();
        if is_killed {
            node.kill()?;
        } else {
            node.stop_answering()?;
        }
        load.run(Duration::from_millis(1), Duration::from_secs(3)).await;
        let samples = load.take();
        let is_dead = |sample: &&Sample| owners.get(sample.subject) == Some(&0);
        let what = if is_killed { "killed" } else { "stopped" };
        let healthy = Summary::of(samples.iter().filter(|sample| !is_dead(sample)));
        rows.push(format!("{what}, keys of healthy masters: {healthy}"));
        rows.push(format!(
            "{what}, keys of the dead one: {}",
            Summary::of(samples.iter().filter(is_dead))
        ));
        if !is_killed {
            node.go_on()?;
        }
    }
    Ok(rows)
}

pub(super) async fn slow() -> Result<Vec<String>> {
    let server = Server::start()?;
    let mut rows = Vec::new();
    for round_trip in [50, 60, 120] {
        for callers in [1, 25] {
            let proxy = FaultProxy::to(server.addr())?;
            let store = connected(&format!("redis://{}", proxy.addr())).await?;
            let (limit, names) = (many(OutageMode::Open)?, subjects(1));
            let load = Load::new(limiter(store), limit.clone(), names.clone());
            load.run_closed(1, Duration::from_millis(10)).await;
            load.take();
            let before = charged(&load, &limit, &names).await?;
            proxy.set(Mode::Latency(Duration::from_millis(round_trip)))?;
            load.run_closed(callers, Duration::from_secs(1)).await;
            proxy.set(Mode::Pass)?;
            let samples = load.take();
            let summary = Summary::of(&samples);
            let after = settled(&load, &limit, &names).await?;
            let by_store = u64::try_from(summary.by_store)?;
            rows.push(format!(
                "{round_trip} ms, {callers} callers: {summary}; {} units beyond those answered",
                (after - before).saturating_sub(by_store)
            ));
        }
    }
    Ok(rows)
}

/// Units that were charged, once the store answers again.
async fn settled(load: &Load, limit: &tollgate_core::Limit, names: &[String]) -> Result<u64> {
    let from = Instant::now();
    loop {
        match charged(load, limit, names).await {
            Err(_) if from.elapsed() < Duration::from_secs(10) => {
                sleep(Duration::from_millis(20)).await;
            }
            other => return other,
        }
    }
}

pub(super) async fn freeze() -> Result<Vec<String>> {
    let server = Server::start()?;
    let mut rows = Vec::new();
    for _ in 0..5 {
        let store = connected(&server.url()).await?;
        let load = Load::new(limiter(store), many(OutageMode::Open)?, subjects(20));
        load.run(Duration::from_millis(2), WARM_UP).await;
        load.take();
        server.stop_answering()?;
        let frozen = Instant::now();
        load.run(Duration::from_millis(2), Duration::from_secs(1)).await;
        server.go_on()?;
        let thawed = Instant::now();
        let during = load.take();
        load.run(Duration::from_millis(2), Duration::from_secs(1)).await;
        let after = load.take();
        rows.push(format!(
            "at once from {} after the freeze on; by the store {} after it: {}",
            detected(&during, frozen),
            recovered(&after, thawed),
            Summary::of(&during)
        ));
    }
    Ok(rows)
}

/// When the first call was decided without the store in less than 20 ms.
pub(super) fn detected(samples: &[Sample], from: Instant) -> String {
    let fast = samples.iter().filter(|sample| {
        let is_degraded = matches!(sample.answer, Answer::Degraded(_));
        is_degraded && sample.took < Duration::from_millis(20)
    });
    let first = fast.map(|sample| sample.begun + sample.took).min();
    first.map_or_else(|| "never".to_owned(), |first| ms(first - from))
}

/// When the store decided again.
pub(super) fn recovered(samples: &[Sample], from: Instant) -> String {
    let decided = samples.iter().filter(|sample| sample.answer == Answer::Store);
    let first = decided.map(|sample| sample.begun + sample.took).min();
    first.map_or_else(|| "never".to_owned(), |first| ms(first - from))
}
