//! A table of expired rows is reclaimed during decisions: how long callers wait before, during
//! and after it.

use std::time::Duration;

use tollgate::algorithm::TokenBucket;
use tollgate::postgres::{Config, Postgres};
use tollgate::store::Store;
use tollgate::{Error, Limit, Limiter, Quota};

use super::contender::Contender;
use super::load::{Spread, run};
use super::options::Options;
use super::psql;
use crate::Result;
use crate::report::Markdown;

/// Fills the table, then runs callers in spans of one length until the rows are gone.
pub(crate) async fn print(options: &Options) -> Result<()> {
    let mut markdown = Markdown::new(&["span"]);
    for title in ["expired rows left", "decisions/s", "p50 ms", "p95 ms", "p99 ms"] {
        markdown.column(title);
    }
    psql(options.url(), "DROP SCHEMA IF EXISTS bench CASCADE; CREATE SCHEMA bench")?;
    let migrated = Postgres::migrate(config(options, None)?).await;
    migrated.map_err(|error| error.to_string())?;
    fill(options)?;
    markdown.print_head();
    span(options, &markdown, "before").await?;
    span(options, &markdown, "before").await?;
    // Another process would do the same: sweeping is no part of deciding.
    let every = Some(Duration::from_millis(100));
    let sweeper = Postgres::connect(config(options, every)?).await;
    let sweeper = sweeper.map_err(|error| error.to_string())?;
    while left(options)? > 0 {
        span(options, &markdown, "while").await?;
    }
    sweeper.close().await;
    span(options, &markdown, "after").await?;
    span(options, &markdown, "after").await
}

async fn span(options: &Options, markdown: &Markdown, name: &str) -> Result<()> {
    let store =
        Postgres::connect(config(options, None)?).await.map_err(|error| error.to_string())?;
    let limiter = Limiter::builder(store).deadline(Duration::from_secs(10)).build();
    let quota = TokenBucket::new(1 << 40, Quota::per_second(1_000));
    let limit = quota.and_then(|quota| Limit::new("live", quota));
    let limit = limit.map_err(|error| error.to_string())?;
    let contender =
        Contender::Tollgate { limiter: Box::new(limiter), limit: Box::new(limit), ids: false };
    let sample = run(contender, Spread::Distinct(options.keys), options).await?;
    let ms = |micros: u32| format!("{:.1}", f64::from(micros) / 1_000.0);
    markdown.print_row(&[
        name.to_owned(),
        left(options)?.to_string(),
        format!("{:.0}", sample.per_second),
        ms(sample.p50),
        ms(sample.p95),
        ms(sample.p99),
    ]);
    Ok(())
}

fn config(options: &Options, sweep: Option<Duration>) -> Result<Config> {
    let config: Config = options.url().parse().map_err(|error: Error| error.to_string())?;
    let config = config.tables("bench", "limits").sweep_every(sweep);
    Ok(config.connect_timeout(Duration::from_secs(10)).operation_timeout(Duration::from_secs(10)))
}

fn fill(options: &Options) -> Result<()> {
    let rows = options.rows;
    let fill = format!(
        "INSERT INTO bench.limits SELECT 'tollgate:old:{{' || i || '}}', '[1,1,1,1,1]', 1 \
         FROM generate_series(1, {rows}) AS i"
    );
    // One by one: a vacuum is no part of a transaction.
    for statement in [&fill, "VACUUM ANALYZE bench.limits", "CHECKPOINT"] {
        psql(options.url(), statement)?;
    }
    Ok(())
}

fn left(options: &Options) -> Result<u64> {
    let count = psql(options.url(), "SELECT count(*) FROM bench.limits WHERE expires = 1")?;
    count.parse().map_err(|_| "psql counted nothing".into())
}
