//! Faults of PostgreSQL.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::NoTls;
use tollgate_core::OutageMode;
use tollgate_postgres::{Config, Postgres};
use tollgate_test_servers::{FaultProxy, Mode, PgVersion, Postgres as Server};

use super::redis::{detected, recovered};
use super::{limiter, many, subjects};
use crate::{Load, Result, Sample, Summary};

async fn connected(url: &str) -> Result<Postgres> {
    let config: Config = url.parse()?;
    Ok(Postgres::connect(config).await?)
}

pub(super) async fn slow() -> Result<Vec<String>> {
    let server = Server::start(PgVersion::V18)?;
    let mut rows = Vec::new();
    for round_trip in [24, 60, 120] {
        for callers in [1, 25] {
            let proxy = FaultProxy::to(server.addr())?;
            let store =
                connected(&format!("postgres://postgres@{}/postgres", proxy.addr())).await?;
            let load = Load::new(limiter(store), many(OutageMode::Open)?, subjects(1));
            load.run_closed(1, Duration::from_millis(10)).await;
            load.take();
            proxy.set(Mode::Latency(Duration::from_millis(round_trip)))?;
            load.run_closed(callers, Duration::from_secs(1)).await;
            rows.push(format!("{round_trip} ms, {callers} callers: {}", Summary::of(&load.take())));
        }
    }
    Ok(rows)
}

pub(super) async fn freeze() -> Result<Vec<String>> {
    let server = Server::start(PgVersion::V18)?;
    let mut rows = Vec::new();
    for _ in 0..20 {
        let proxy = FaultProxy::to(server.addr())?;
        let store = connected(&format!("postgres://postgres@{}/postgres", proxy.addr())).await?;
        let names = subjects(20);
        let load = Load::new(limiter(store), many(OutageMode::Open)?, names);
        load.run(Duration::from_millis(2), Duration::from_millis(300)).await;
        load.take();
        let (holder, connection) = tokio_postgres::connect(&server.url(), NoTls).await?;
        tokio::spawn(connection);
        let lock = "BEGIN; SELECT FROM tollgate.limits WHERE key LIKE '%subject-0}' FOR UPDATE";
        holder.batch_execute(lock).await?;
        let freeze = async {
            sleep(Duration::from_millis(50)).await;
            proxy.set(Mode::Hold).map(|()| Instant::now())
        };
        let load_run = load.run(Duration::from_millis(2), Duration::from_secs(1));
        let ((), frozen) = tokio::join!(load_run, freeze);
        let frozen = frozen?;
        holder.batch_execute("ROLLBACK").await?;
        let during = load.take();
        proxy.set(Mode::Pass)?;
        let thawed = Instant::now();
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

pub(super) async fn locks() -> Result<Vec<String>> {
    let server = Server::start(PgVersion::V18)?;
    let store = connected(&server.url()).await?;
    let (hot, limit) = (11, many(OutageMode::Open)?);
    let load = Load::new(limiter(store), limit, subjects(110));
    load.run(Duration::from_millis(2), Duration::from_millis(500)).await;
    let healthy = Summary::of(&load.take());
    let (holder, connection) = tokio_postgres::connect(&server.url(), NoTls).await?;
    tokio::spawn(connection);
    let keys: Vec<String> =
        subjects(hot).into_iter().map(|name| format!("'tollgate:faults:{{{name}}}'")).collect();
    let lock =
        format!("BEGIN; SELECT FROM tollgate.limits WHERE key IN ({}) FOR UPDATE", keys.join(","));
    holder.batch_execute(&lock).await?;
    load.run(Duration::from_millis(2), Duration::from_secs(1)).await;
    let samples = load.take();
    holder.batch_execute("ROLLBACK").await?;
    let is_hot = |sample: &&Sample| sample.subject < hot;
    Ok(vec![
        format!("before: {healthy}"),
        format!("hot: {}", Summary::of(samples.iter().filter(is_hot))),
        format!("others: {}", Summary::of(samples.iter().filter(|sample| !is_hot(sample)))),
    ])
}
