//! Every decision in a table, for people who bill: one row per charge, in the transaction that
//! makes it, partitioned by day so that old ones go away as whole tables.
//!
//! A replay is no new decision and adds no row. A refund has the verdict `refund` and the negative
//! number of units that were given back, so that the sum over what was allowed and refunded is what
//! was used.

use core::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};
use tollgate_core::store::Plan;
use tollgate_core::{Charge, Now, Operation, Verdict};

use crate::config::Config;
use crate::draft::stored;
use crate::fault::Fault;
use crate::job::Job;

/// A thousand years: more would leave the calendar of PostgreSQL.
const MAX_SECONDS: i64 = 31_556_952_000;
/// Partitions are made so early that a store which was off for days finds its own.
const DAYS_AHEAD: u32 = 7;
/// Changing partitions needs a lock on the whole table: better later than in the way.
const DDL_LOCK_MS: u32 = 50;

/// How long decisions are kept. They go away by whole days (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retention {
    /// At least so long, and at most a day longer.
    For(Duration),
    /// Until somebody else removes them.
    ForEver,
}

/// Rows that are to be written, as columns.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    at: Vec<i64>,
    ids: Vec<Option<String>>,
    policies: Vec<String>,
    keys: Vec<String>,
    costs: Vec<i64>,
    verdicts: Vec<&'static str>,
    remaining: Vec<i64>,
    waits: Vec<Option<i64>>,
}

impl Entries {
    pub(crate) fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    /// One row per charge of an admission. A charge that was granted alone is denied all the same
    /// when another one was: then nothing was charged.
    pub(crate) fn add(&mut self, job: &Job, charges: &[Charge<'_>], plan: &Plan, now: Now) {
        let is_never = plan.decisions.iter().any(|one| one.verdict == Verdict::Never);
        let verdict = match (plan.admitted, is_never) {
            (true, _) => Verdict::Allowed,
            (false, true) => Verdict::Never,
            (false, false) => Verdict::Denied,
        };
        let longest = plan.decisions.iter().filter_map(|one| one.retry_after_ms).max();
        let parts = charges.iter().zip(&job.slots).zip(&plan.decisions).zip(&plan.refunded);
        for (((charge, slot), decision), units) in parts {
            let (verdict, cost) = match charge.operation {
                Operation::Refund(_) if plan.admitted => ("refund", -stored(*units)),
                Operation::Refund(_) => (verdict.as_str(), 0),
                Operation::Take => (verdict.as_str(), stored(charge.cost.get())),
            };
            self.at.push(stored(now.reading()));
            self.ids.push(job.mark.as_ref().map(|mark| mark.id.clone()));
            self.policies.push(charge.limit.policy().to_string());
            self.keys.push(job.keys.get(*slot).cloned().unwrap_or_default());
            self.costs.push(cost);
            self.verdicts.push(verdict);
            self.remaining.push(stored(decision.remaining));
            self.waits.push(if is_never { None } else { longest.map(stored) });
        }
    }

    pub(crate) async fn write(&self, client: &Client, statement: &str) -> Result<(), Fault> {
        if self.is_empty() {
            return Ok(());
        }
        let columns: [(&(dyn ToSql + Sync), Type); 8] = [
            (&self.at, Type::INT8_ARRAY),
            (&self.ids, Type::TEXT_ARRAY),
            (&self.policies, Type::TEXT_ARRAY),
            (&self.keys, Type::TEXT_ARRAY),
            (&self.costs, Type::INT8_ARRAY),
            (&self.verdicts, Type::TEXT_ARRAY),
            (&self.remaining, Type::INT8_ARRAY),
            (&self.waits, Type::INT8_ARRAY),
        ];
        client.execute_typed(statement, &columns).await?;
        Ok(())
    }
}

/// Makes the table, with a place for rows of days that have no partition.
pub(crate) async fn make(config: &Config, client: &Client) -> Result<(), Fault> {
    let (audit, rest) = (&config.names.audit, config.names.partition("rest"));
    let statement = format!(
        "SET LOCAL client_min_messages = warning;
         CREATE TABLE IF NOT EXISTS {audit} (at timestamptz NOT NULL, id text, \
         policy text NOT NULL, key text NOT NULL, cost int8 NOT NULL, verdict text NOT NULL, \
         remaining int8 NOT NULL, wait_ms int8) PARTITION BY RANGE (at);
         CREATE TABLE IF NOT EXISTS {rest} PARTITION OF {audit} DEFAULT"
    );
    client.batch_execute(&statement).await?;
    for partition in ahead(config, client).await? {
        client.batch_execute(&partition).await?;
    }
    Ok(())
}

/// Makes partitions ahead of time, and removes those that are old enough. Each on its own: what
/// cannot be done now, because somebody uses the table or its rows are elsewhere, stops nothing else.
pub(crate) async fn turn_pages(config: &Config, client: &Client) -> Result<(), Fault> {
    let mut statements = ahead(config, client).await?;
    statements.extend(behind(config, client).await?);
    for statement in statements {
        let act = format!("BEGIN; SET LOCAL lock_timeout = {DDL_LOCK_MS}; {statement}; COMMIT");
        if client.batch_execute(&act).await.is_err() {
            client.batch_execute("ROLLBACK").await?;
        }
    }
    Ok(())
}

/// The statements that make the partitions of today and the days to come, where they are missing.
async fn ahead(config: &Config, client: &Client) -> Result<Vec<String>, Fault> {
    let days = format!(
        "SELECT to_char(d, 'YYYYMMDD'), d::date::text, (d::date + 1)::text FROM \
         generate_series(date_trunc('day', now() AT TIME ZONE 'UTC'), \
         now() AT TIME ZONE 'UTC' + interval '{DAYS_AHEAD} days', interval '1 day') AS d \
         WHERE NOT EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS n \
         ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2 || to_char(d, 'YYYYMMDD'))"
    );
    let (schema, prefix) = (config.names.raw_schema(), config.names.partition_name(""));
    let named: [(&(dyn ToSql + Sync), Type); 2] = [(&schema, Type::TEXT), (&prefix, Type::TEXT)];
    let rows = client.query_typed(&days, &named).await?;
    let make = rows.iter().map(|row| {
        let (from, to): (&str, &str) = (row.try_get(1)?, row.try_get(2)?);
        let (audit, partition) = (&config.names.audit, config.names.partition(row.try_get(0)?));
        Ok(format!(
            "CREATE TABLE IF NOT EXISTS {partition} PARTITION OF {audit} \
             FOR VALUES FROM ('{from} 00:00+00') TO ('{to} 00:00+00')"
        ))
    });
    make.collect()
}

/// The statements that remove the partitions of days that ended before the retention began.
async fn behind(config: &Config, client: &Client) -> Result<Vec<String>, Fault> {
    let Some(Retention::For(keep)) = config.audit else {
        return Ok(Vec::new());
    };
    let seconds = i64::try_from(keep.as_secs()).unwrap_or(i64::MAX).min(MAX_SECONDS);
    let old = "SELECT right(c.relname, 8) FROM pg_class AS c \
               JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1 \
               AND c.relname = $2 || right(c.relname, 8) AND right(c.relname, 8) ~ '^[0-9]{8}$' \
               AND right(c.relname, 8) < to_char(now() AT TIME ZONE 'UTC' \
               - $3 * interval '1 second', 'YYYYMMDD')";
    let (schema, prefix) = (config.names.raw_schema(), config.names.partition_name(""));
    let named: [(&(dyn ToSql + Sync), Type); 3] =
        [(&schema, Type::TEXT), (&prefix, Type::TEXT), (&seconds, Type::INT8)];
    let rows = client.query_typed(old, &named).await?;
    let remove = rows.iter().map(|row| {
        let partition = config.names.partition(row.try_get(0)?);
        Ok(format!("DROP TABLE IF EXISTS {partition}"))
    });
    remove.collect()
}
