//! Every statement that decides or reads, formatted once from the names of the tables.
//!
//! # Why there are no deadlocks
//! A transaction first locks all existing rows that it needs. It waits for the rows of one caller
//! at most, before it holds any other row: for its states in the order of their keys, then for its
//! request id. It skips all other rows that are locked. Only then it inserts missing rows, states
//! before request ids, each in order. A transaction that waits for a state holds only states that
//! come earlier in the order, one that waits for a request id holds states only, and neither has
//! inserted anything. A transaction that holds a request id waits for insertions only. A
//! transaction that waits for the insertion of another one waits for a transaction that already
//! holds all its row locks and can only wait for insertions that come later. The sweep skips locked
//! rows.

use core::time::Duration;

use tollgate_core::store::record::SETTLED;

use crate::config::{Config, Durability};
use crate::names::Names;

/// The clock of the database in whole microseconds. `extract` returns `numeric`: nothing is
/// rounded.
pub(crate) const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::int8";

/// Overrides the defaults of the database: every statement has to see what was committed before it,
/// above all by the transaction whose lock it waited for.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/// The statements.
#[derive(Debug)]
pub(crate) struct Sql {
    /// Begins a transaction with settings that end with it, up to the value of `lock_timeout`.
    begin: String,
    pub(crate) states: TableSql,
    /// A statement of its own after the locks on states: it sees what was committed while those
    /// were waited for.
    pub(crate) records: TableSql,
    /// Counts request ids that expire after `$1`, up to `$2`.
    pub(crate) count_records: String,
    /// Counts request ids that have not expired, up to `$1`, and reads the clock.
    pub(crate) count_records_now: String,
    /// Deletes the oldest `$3` request ids with names from `$1` to `$2`, but those of settlements.
    pub(crate) forget: String,
    /// Inserts decisions into the audit table.
    pub(crate) audit: String,
    /// Reads the states of the keys `$1` without locks, and the clock.
    pub(crate) read: String,
    /// Deletes the states of the keys `$1`.
    pub(crate) reset: String,
}

/// The statements of a round for one table of values.
#[derive(Debug)]
pub(crate) struct TableSql {
    /// Locks the rows `$1` in order and reads them. The clock is read after the last lock.
    pub(crate) lock: String,
    /// The same without waiting: also returns the keys of rows that others have locked.
    pub(crate) lock_free: String,
    /// Inserts rows. Fails if another transaction has inserted one of them since.
    pub(crate) insert: String,
    /// Updates rows that are locked.
    pub(crate) update: String,
}

impl Sql {
    pub(crate) fn new(config: &Config, names: &Names) -> Self {
        let Names { states, records, audit, .. } = names;
        let slack = config.slack;
        Self {
            begin: begin(config),
            states: TableSql::new(states, "state", lock_free_states(states)),
            records: TableSql::new(records, "value", lock_free_records(records)),
            count_records: format!(
                "SELECT count(*) FROM (SELECT 1 FROM {records} WHERE expires > $1 + {slack} \
                 LIMIT $2) AS live"
            ),
            count_records_now: format!(
                "SELECT count(*), {CLOCK} FROM (SELECT 1 FROM {records} \
                 WHERE expires > {CLOCK} + {slack} LIMIT $1) AS live"
            ),
            // What it deletes is found by a key, or by reading the whole table.
            forget: format!(
                "DELETE FROM {records} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {records} \
                 WHERE key >= $1 AND key < $2 \
                 AND strpos(substr(value, strpos(value, '\",\"')), '{SETTLED}') = 0 \
                 ORDER BY expires LIMIT $3 FOR UPDATE SKIP LOCKED))"
            ),
            audit: format!(
                "INSERT INTO {audit} (at, id, policy, key, cost, verdict, remaining, wait_ms) \
                 SELECT to_timestamp(0) + n.at * interval '1 microsecond', n.id, n.policy, n.key, \
                 n.cost, n.verdict, n.remaining, n.wait_ms FROM unnest($1, $2, $3, $4, $5, $6, $7, \
                 $8) AS n(at, id, policy, key, cost, verdict, remaining, wait_ms)"
            ),
            read: format!(
                "SELECT array_agg(key), array_agg(state), {CLOCK} FROM {states} \
                 WHERE key = ANY($1)"
            ),
            reset: format!("DELETE FROM {states} WHERE key = ANY($1)"),
        }
    }

    /// Begins a transaction that waits for the lock of another one for at most `lock_timeout`.
    pub(crate) fn begin(&self, lock_timeout: Duration) -> String {
        format!("{}{}", self.begin, milliseconds(lock_timeout))
    }
}

impl TableSql {
    /// `value` is the name of the column that holds the text of a value.
    fn new(table: &str, value: &str, lock_free: String) -> Self {
        Self {
            lock: format!(
                "WITH held AS MATERIALIZED (SELECT key, {value} FROM {table} WHERE key = ANY($1) \
                 ORDER BY key FOR UPDATE) SELECT array_agg(key), array_agg({value}), {CLOCK} \
                 FROM held"
            ),
            lock_free,
            insert: format!(
                "INSERT INTO {table} (key, {value}, expires) SELECT * FROM unnest($1, $2, $3) \
                 AS n(key, value, expires) ORDER BY n.key COLLATE \"C\""
            ),
            update: format!(
                "UPDATE {table} AS t SET {value} = n.value, expires = n.expires \
                 FROM unnest($1, $2, $3) AS n(key, value, expires) WHERE t.key = n.key"
            ),
        }
    }
}

/// Most keys have a row that is free: only those whose rows it does not hold are looked for again.
fn lock_free_states(table: &str) -> String {
    format!(
        "WITH held AS MATERIALIZED (SELECT key, state FROM {table} WHERE key = ANY($1) \
         ORDER BY key FOR UPDATE SKIP LOCKED) SELECT array_agg(key), array_agg(state), {CLOCK}, \
         (SELECT array_agg(t.key) FROM {table} AS t WHERE t.key = ANY(ARRAY(\
         SELECT unnest($1) COLLATE \"C\" EXCEPT SELECT key FROM held))) FROM held"
    )
}

/// Most request ids are new: they are looked for once.
fn lock_free_records(table: &str) -> String {
    format!(
        "WITH found AS MATERIALIZED (SELECT key FROM {table} WHERE key = ANY($1)), \
         held AS MATERIALIZED (SELECT key, value FROM {table} \
         WHERE key = ANY(ARRAY(SELECT key FROM found)) ORDER BY key FOR UPDATE SKIP LOCKED) \
         SELECT array_agg(key), array_agg(value), {CLOCK}, (SELECT array_agg(f.key) \
         FROM found AS f WHERE NOT EXISTS (SELECT FROM held AS h WHERE h.key = f.key)) FROM held"
    )
}

/// A process that hangs must not hold locks, nor wait for them, for longer than it waits for an
/// answer.
fn begin(config: &Config) -> String {
    let ms = milliseconds(config.operation_timeout);
    let relaxed = match config.durability {
        Durability::Full | Durability::Unlogged => "",
        Durability::Relaxed => "SET LOCAL synchronous_commit = off; ",
    };
    format!(
        "{BEGIN}; {relaxed}SET LOCAL statement_timeout = {ms}; \
         SET LOCAL idle_in_transaction_session_timeout = {ms}; SET LOCAL lock_timeout = "
    )
}

/// At least 1: a timeout of 0 is none.
fn milliseconds(timeout: Duration) -> u128 {
    timeout.as_millis().clamp(1, i32::MAX.unsigned_abs().into())
}

/// A number as the database stores it. Every instant that decides is far below the maximum.
pub(crate) fn int8(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
