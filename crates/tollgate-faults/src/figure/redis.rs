//! Figures of Redis, single and as a cluster, measured on one limiter.

use std::time::Duration;

use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};
use tollgate_redis::Redis;
use tollgate_test_servers::{FaultProxy, Mode, Redis as Server, RedisCluster};

use super::{Outcome, all_detected, detected, load, many, subjects};
use crate::sample::{Answer, ms};
use crate::{Result, Sample, Summary};

const WARM_UP: Duration = Duration::from_millis(300);
const CALLS_MAX: usize = 20;
const SPAN_MAX: Duration = Duration::from_millis(50);
/// At least this share by the store, in hundredths of a percent.
const HEALTHY_MIN: usize = 9_900;
const NEAR_DEADLINE_MIN: usize = 9_500;
const RECONNECTED_MAX: Duration = Duration::from_millis(250);

async fn connected(url: &str) -> Result<Redis> {
    Ok(Redis::connect(url.parse()?).await?)
}

pub(super) async fn lost_connection() -> Result<Outcome> {
    let server = Server::start()?;
    let proxy = FaultProxy::to(server.addr())?;
    let (mut outcome, mut worst) = (Outcome::default(), (0, Duration::ZERO));
    for attempt in 0..15 {
        let store = connected(&format!("redis://{}", proxy.addr())).await?;
        proxy.set(Mode::Latency(Duration::from_millis(4)))?;
        let load = load(store, subjects(50))?;
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
        let (count, span) = degraded_span(&load.take());
        outcome.part(
            format!("{count} calls without the store within {}", ms(span)),
            count <= CALLS_MAX && span <= SPAN_MAX,
        );
        worst = (worst.0.max(count), worst.1.max(span));
        proxy.set(Mode::Pass)?;
        load.limiter().close().await;
    }
    let met = outcome.parts.iter().filter(|(_, is_met)| *is_met).count();
    outcome.measured =
        format!("{met} of 15; at most {} calls without the store, {}", worst.0, ms(worst.1));
    Ok(outcome)
}

/// How many calls the mode decided, and the time from the first of them to the last.
fn degraded_span(samples: &[Sample]) -> (usize, Duration) {
    let degraded = || samples.iter().filter(|sample| matches!(sample.answer, Answer::Degraded(_)));
    let ends = || degraded().map(Sample::ended);
    let span = ends().max().zip(ends().min()).map(|(last, first)| last - first);
    (degraded().count(), span.unwrap_or_default())
}

/// A server that was killed is started again: how long after it answers a client the limiter
/// decides by it.
pub(super) async fn reconnect() -> Result<Outcome> {
    let server = Server::builder().durable().start()?;
    let (mut outcome, mut slowest) = (Outcome::default(), Duration::ZERO);
    for _ in 0..10 {
        let load = load(connected(&server.url()).await?, subjects(20))?;
        load.run(Duration::from_millis(2), WARM_UP).await;
        server.kill()?;
        load.run(Duration::from_millis(2), Duration::from_millis(700)).await;
        load.take();
        let restart = async {
            block_in_place(|| server.restart())?;
            Ok::<_, tollgate_test_servers::Error>(Instant::now())
        };
        let running = load.run(Duration::from_millis(2), Duration::from_millis(1_500));
        let (started, ()) = tokio::join!(restart, running);
        let samples = load.take();
        let by_store = samples.iter().filter(|sample| sample.answer.is_by_store());
        let first = by_store.map(Sample::ended).min();
        let took = first.map(|first| first.saturating_duration_since(started.unwrap_or(first)));
        outcome.part(
            took.map_or_else(|| "never".to_owned(), ms),
            took.is_some_and(|took| took <= RECONNECTED_MAX),
        );
        slowest = slowest.max(took.unwrap_or(Duration::MAX));
        load.limiter().close().await;
    }
    let met = outcome.parts.iter().filter(|(_, is_met)| *is_met).count();
    outcome.measured = format!("{met} of 10; {} at most", ms(slowest));
    Ok(outcome)
}

/// Two rounds one after the other do not fit into the deadline, and one does.
pub(super) async fn near_deadline() -> Result<Outcome> {
    let server = Server::start()?;
    let proxy = FaultProxy::to(server.addr())?;
    let (mut outcome, mut shares) = (Outcome::default(), Vec::new());
    for keys in [1, 100] {
        let store = connected(&format!("redis://{}", proxy.addr())).await?;
        let load = load(store, subjects(keys))?;
        // The server has the scripts: at this round trip a caller has no time to send one.
        load.run_closed(100, WARM_UP).await;
        load.take();
        proxy.set(Mode::Latency(Duration::from_millis(60)))?;
        load.run_closed(100, Duration::from_secs(3)).await;
        let answers = Summary::of(&load.take());
        let share = answers.store_share();
        outcome.part(format!("{keys} keys: {answers}"), share >= NEAR_DEADLINE_MIN);
        shares.push(format!("{keys} keys: {}.{:02} %", share / 100, share % 100));
        proxy.set(Mode::Pass)?;
        load.limiter().close().await;
    }
    outcome.measured = shares.join(", ");
    Ok(outcome)
}

pub(super) async fn dead_node() -> Result<Outcome> {
    let (mut outcome, mut shares) = (Outcome::default(), Vec::new());
    for what in ["stopped", "killed"] {
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
        let (limit, names) = (many()?, subjects(60));
        let owners = names.iter().map(|name| cluster.owner_of_key(&limit.key(name).to_text()));
        let owners = owners.collect::<Result<Vec<_>, _>>()?;
        let load = load(store, names)?;
        let node = cluster.nodes().first().ok_or("a cluster without nodes")?;
        load.run(Duration::from_millis(1), WARM_UP).await;
        load.take();
        if what == "killed" {
            node.kill()?;
        } else {
            node.stop_answering()?;
        }
        load.run(Duration::from_millis(1), Duration::from_secs(3)).await;
        let samples = load.take();
        let is_dead = |sample: &&Sample| owners.get(sample.subject) == Some(&0);
        let healthy = Summary::of(samples.iter().filter(|sample| !is_dead(sample)));
        let dead = Summary::of(samples.iter().filter(is_dead));
        let share = healthy.store_share();
        outcome.part(
            format!("{what}, keys of healthy masters: {healthy}; of the dead one: {dead}"),
            share >= HEALTHY_MIN,
        );
        shares.push(format!("{what}: {}.{:02} %", share / 100, share % 100));
    }
    outcome.measured = shares.join(", ");
    Ok(outcome)
}

pub(super) async fn freeze() -> Result<Outcome> {
    let server = Server::start()?;
    let mut found = Vec::new();
    for _ in 0..20 {
        let load = load(connected(&server.url()).await?, subjects(20))?;
        load.run(Duration::from_millis(2), WARM_UP).await;
        load.take();
        server.stop_answering()?;
        let frozen = Instant::now();
        load.run(Duration::from_millis(2), Duration::from_millis(600)).await;
        server.go_on()?;
        found.push(detected(&load.take(), frozen));
        load.limiter().close().await;
    }
    Ok(all_detected(&found))
}
