//! Figures of PostgreSQL, measured on one limiter.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, NoTls};
use tollgate_postgres::{Config, Postgres};
use tollgate_test_servers::{FaultProxy, Mode, PgVersion, Postgres as Server};

use super::{Outcome, all_detected, detected, load, subjects};
use crate::{Result, Sample, Summary};

async fn connected(url: &str) -> Result<Postgres> {
    let config: Config = url.parse()?;
    Ok(Postgres::connect(config).await?)
}

/// Another session.
async fn session(server: &Server) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

pub(super) async fn freeze() -> Result<Outcome> {
    let server = Server::start(PgVersion::V18)?;
    let mut found = Vec::new();
    for _ in 0..20 {
        let proxy = FaultProxy::to(server.addr())?;
        let store = connected(&format!("postgres://postgres@{}/postgres", proxy.addr())).await?;
        let load = load(store, subjects(20))?;
        load.run(Duration::from_millis(2), Duration::from_millis(300)).await;
        load.take();
        let holder = session(&server).await?;
        let lock = "BEGIN; SELECT FROM tollgate.limits WHERE key LIKE '%subject-0}' FOR UPDATE";
        holder.batch_execute(lock).await?;
        let freeze = async {
            sleep(Duration::from_millis(50)).await;
            proxy.set(Mode::Hold).map(|()| Instant::now())
        };
        let running = load.run(Duration::from_millis(2), Duration::from_millis(600));
        let ((), frozen) = tokio::join!(running, freeze);
        found.push(detected(&load.take(), frozen?));
        holder.batch_execute("ROLLBACK").await?;
        proxy.set(Mode::Pass)?;
        load.limiter().close().await;
    }
    Ok(all_detected(&found))
}

pub(super) async fn locks() -> Result<Outcome> {
    let server = Server::start(PgVersion::V18)?;
    let hot = 11;
    let load = load(connected(&server.url()).await?, subjects(110))?;
    load.run(Duration::from_millis(2), Duration::from_millis(500)).await;
    let before = Summary::of(&load.take());
    let holder = session(&server).await?;
    let keys: Vec<String> =
        subjects(hot).into_iter().map(|name| format!("'tollgate:faults:{{{name}}}'")).collect();
    let lock =
        format!("BEGIN; SELECT FROM tollgate.limits WHERE key IN ({}) FOR UPDATE", keys.join(","));
    holder.batch_execute(&lock).await?;
    load.run(Duration::from_millis(2), Duration::from_secs(1)).await;
    let samples = load.take();
    holder.batch_execute("ROLLBACK").await?;
    let is_hot = |sample: &&Sample| sample.subject < hot;
    let locked = Summary::of(samples.iter().filter(is_hot));
    let others = Summary::of(samples.iter().filter(|sample| !is_hot(sample)));
    let mut outcome = Outcome::default();
    outcome.part(format!("locked: {locked}"), !locked.refused.is_empty());
    outcome.part(format!("before: {before}; others: {others}"), others.by_store == others.calls);
    outcome.measured = format!("{} of {}", others.by_store, others.calls);
    Ok(outcome)
}
