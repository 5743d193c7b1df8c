//! The audit table: one row per charge, written in the transaction that decides, for billing. It is
//! partitioned by day, so that old rows are removed by dropping a table.
//!
//! A replay is not a new decision and adds no row. A refund has the verdict `refund`, a settlement
//! for another final cost `settle`; the cost is the number of units charged on top, or negative the
//! number given back. The sum of the costs that were allowed, settled or refunded is therefore the
//! usage.

use core::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};
use tollgate_core::store::{Evidence, Plan, plan, slots_of};
use tollgate_core::{Admission, Operation, Result, State, Verdict};

use crate::connection::Shared;
use crate::error::QueryError;
use crate::rows::without_nul;
use crate::sql::int8;

/// A thousand years. A longer retention leaves the range of PostgreSQL's timestamps.
const MAX_SECONDS: i64 = 31_556_952_000;
/// How many days ahead partitions are created: a store that was off for days still has its
/// partition.
const DAYS_AHEAD: u32 = 7;
/// Partition changes lock the whole table. One that cannot get the lock is done by the next sweep.
const DDL_LOCK_MS: u32 = 50;

/// How long decisions are kept. They are removed by whole days (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retention {
    /// At least this long, and at most a day longer.
    For(Duration),
    /// The store never removes them.
    ForEver,
}

/// Rows to insert, as columns.
#[derive(Debug, Default)]
pub(crate) struct AuditRows {
    at: Vec<i64>,
    ids: Vec<Option<String>>,
    policies: Vec<String>,
    keys: Vec<String>,
    costs: Vec<i64>,
    verdicts: Vec<&'static str>,
    remaining: Vec<i64>,
    waits: Vec<Option<i64>>,
}

impl AuditRows {
    pub(crate) fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    /// Adds one row per charge of an admission that was decided.
    pub(crate) fn add(&mut self, admission: &Admission<'_>, evidence: &Evidence) -> Result<()> {
        if evidence.replayed.is_some() {
            return Ok(());
        }
        let plan = plan_of(admission, evidence)?;
        let is_never = plan.decisions.iter().any(|one| one.verdict == Verdict::Never);
        // A charge that is allowed by itself counts as denied if another charge was denied.
        let verdict = match (plan.admitted, is_never) {
            (true, _) => Verdict::Allowed,
            (false, true) => Verdict::Never,
            (false, false) => Verdict::Denied,
        };
        let longest = plan.decisions.iter().filter_map(|one| one.retry_after_ms).max();
        let id = admission.request_id.map(|request| request.id.replace('%', "%25"));
        let charges = admission.charges().iter().zip(&plan.decisions).zip(&plan.settled);
        for ((charge, decision), settled) in charges {
            let (verdict, cost) = match charge.operation {
                Operation::Settle { to, .. } if plan.admitted => {
                    let change = int8(settled.charged) - int8(settled.given_back);
                    (if to == 0 { "refund" } else { "settle" }, change)
                }
                Operation::Settle { .. } => (verdict.as_str(), 0),
                Operation::Take | Operation::TakeUpTo(_) => {
                    let taken = decision.granted().unwrap_or(charge.cost);
                    (verdict.as_str(), int8(taken.get()))
                }
            };
            self.at.push(int8(evidence.now.reading()));
            self.ids.push(id.as_deref().map(|id| without_nul(id).into_owned()));
            self.policies.push(charge.limit.policy().to_string());
            self.keys.push(without_nul(&charge.key().to_text()).into_owned());
            self.costs.push(cost);
            self.verdicts.push(verdict);
            self.remaining.push(int8(decision.remaining));
            self.waits.push(if is_never { None } else { longest.map(int8) });
        }
        Ok(())
    }

    pub(crate) async fn insert(&self, client: &Client, statement: &str) -> Result<(), QueryError> {
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

/// The decisions of an admission, from the states before it. The steps are pure: they decide as the
/// round did.
fn plan_of(admission: &Admission<'_>, evidence: &Evidence) -> Result<Plan> {
    let (slots, keys) = slots_of(admission.charges());
    let mut states: Vec<Option<State>> = vec![None; keys.len()];
    for (slot, before) in slots.iter().zip(evidence.before.iter()) {
        if let Some(state) = states.get_mut(*slot) {
            state.clone_from(before);
        }
    }
    plan(admission.charges(), &slots, &states, evidence.now)
}

/// Creates the table, with a default partition for days that have none.
pub(crate) async fn create(shared: &Shared, client: &Client) -> Result<(), QueryError> {
    let (audit, rest) = (&shared.names.audit, shared.names.partition("rest"));
    let statement = format!(
        "SET LOCAL client_min_messages = warning;
         CREATE TABLE IF NOT EXISTS {audit} (at timestamptz NOT NULL, id text, \
         policy text NOT NULL, key text NOT NULL, cost int8 NOT NULL, verdict text NOT NULL, \
         remaining int8 NOT NULL, wait_ms int8) PARTITION BY RANGE (at);
         CREATE TABLE IF NOT EXISTS {rest} PARTITION OF {audit} DEFAULT"
    );
    client.batch_execute(&statement).await?;
    for partition in missing_partitions(shared, client).await? {
        client.batch_execute(&partition).await?;
    }
    Ok(())
}

/// Creates partitions ahead of time and drops those past the retention. Each is a transaction of
/// its own: one that fails, because the table is in use or its rows are in another partition, does
/// not prevent the others.
pub(crate) async fn rotate_partitions(shared: &Shared, client: &Client) -> Result<(), QueryError> {
    let mut statements = missing_partitions(shared, client).await?;
    statements.extend(expired_partitions(shared, client).await?);
    for statement in statements {
        let transaction =
            format!("BEGIN; SET LOCAL lock_timeout = {DDL_LOCK_MS}; {statement}; COMMIT");
        if client.batch_execute(&transaction).await.is_err() {
            client.batch_execute("ROLLBACK").await?;
        }
    }
    Ok(())
}

/// The statements that create the missing partitions of today and the next days.
async fn missing_partitions(shared: &Shared, client: &Client) -> Result<Vec<String>, QueryError> {
    let days = format!(
        "SELECT to_char(d, 'YYYYMMDD'), d::date::text, (d::date + 1)::text FROM \
         generate_series(date_trunc('day', now() AT TIME ZONE 'UTC'), \
         now() AT TIME ZONE 'UTC' + interval '{DAYS_AHEAD} days', interval '1 day') AS d \
         WHERE NOT EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS n \
         ON n.oid = c.relnamespace WHERE n.nspname = $1 \
         AND c.relname = $2 || to_char(d, 'YYYYMMDD'))"
    );
    let names = &shared.names;
    let (schema, prefix) = (names.raw_schema(), names.partition_name(""));
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&schema, Type::TEXT), (&prefix, Type::TEXT)];
    let rows = client.query_typed(&days, &parameters).await?;
    let create = rows.iter().map(|row| {
        let (from, to): (&str, &str) = (row.try_get(1)?, row.try_get(2)?);
        let (audit, partition) = (&names.audit, names.partition(row.try_get(0)?));
        Ok(format!(
            "CREATE TABLE IF NOT EXISTS {partition} PARTITION OF {audit} \
             FOR VALUES FROM ('{from} 00:00+00') TO ('{to} 00:00+00')"
        ))
    });
    create.collect()
}

/// The statements that drop the partitions of days that ended before the retention began.
async fn expired_partitions(shared: &Shared, client: &Client) -> Result<Vec<String>, QueryError> {
    let Some(Retention::For(keep)) = shared.config.audit else {
        return Ok(Vec::new());
    };
    let seconds = i64::try_from(keep.as_secs()).unwrap_or(i64::MAX).min(MAX_SECONDS);
    let expired = "SELECT right(c.relname, 8) FROM pg_class AS c \
                   JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1 \
                   AND c.relname = $2 || right(c.relname, 8) \
                   AND right(c.relname, 8) ~ '^[0-9]{8}$' \
                   AND right(c.relname, 8) < to_char(now() AT TIME ZONE 'UTC' \
                   - $3 * interval '1 second', 'YYYYMMDD')";
    let (schema, prefix) = (shared.names.raw_schema(), shared.names.partition_name(""));
    let parameters: [(&(dyn ToSql + Sync), Type); 3] =
        [(&schema, Type::TEXT), (&prefix, Type::TEXT), (&seconds, Type::INT8)];
    let rows = client.query_typed(expired, &parameters).await?;
    let drop = rows.iter().map(|row| {
        let partition = shared.names.partition(row.try_get(0)?);
        Ok(format!("DROP TABLE IF EXISTS {partition}"))
    });
    drop.collect()
}
