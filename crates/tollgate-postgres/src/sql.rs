//! Every statement of the decision path, made once from the names of the tables.
//!
//! # Why there are no deadlocks
//! A round locks the rows that exist in the order of their keys, in one statement, and only then
//! inserts those that do not, in the same order. Whoever waits for a row holds only rows of lower
//! keys and has inserted nothing; whoever waits for an insertion waits for somebody who has all his
//! rows and can only wait for insertions of higher keys. The sweep skips what is locked.

use crate::config::{Config, Durability};

/// The database's clock in whole microseconds. `extract` is a `numeric`, so nothing is rounded.
pub(crate) const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::int8";

/// The statements.
#[derive(Debug)]
pub(crate) struct Sql {
    /// Starts a transaction with all it needs; nothing outlives it.
    pub(crate) begin: String,
    /// Locks the rows of `$1` in order and reads them; the clock is read after the last lock.
    pub(crate) lock: String,
    /// Reads the request ids `($1, $2)`; a statement of its own, so that it sees what was committed
    /// while `lock` waited.
    pub(crate) recall: String,
    /// Counts request ids that live at `$1`, up to `$2`.
    pub(crate) count: String,
    /// Counts all request ids, up to `$1`, and reads the clock.
    pub(crate) tally: String,
    /// Creates rows. Fails if one exists by now: then the round is undone as a whole.
    pub(crate) create: String,
    /// Changes rows that are locked.
    pub(crate) change: String,
    /// Remembers request ids, in the place of expired ones.
    pub(crate) remember: String,
    /// Writes decisions down.
    pub(crate) audit: String,
    /// Reads the rows of `$1`, locking nothing.
    pub(crate) look: String,
    /// Forgets the rows of `$1`.
    pub(crate) reset: String,
}

impl Sql {
    pub(crate) fn new(config: &Config) -> Self {
        let names = &config.names;
        let (states, once, audit) = (&names.states, &names.once, &names.audit);
        let read = format!("SELECT array_agg(key), array_agg(state), {CLOCK} FROM");
        Self {
            begin: begin(config),
            lock: format!(
                "WITH held AS MATERIALIZED (SELECT key, state FROM {states} WHERE key = ANY($1) \
                 ORDER BY key FOR UPDATE) {read} held"
            ),
            recall: format!(
                "SELECT o.key, o.id, o.payload, o.expires, o.decided, o.evidence FROM {once} AS o \
                 JOIN unnest($1, $2) AS w(key, id) ON o.key = w.key AND o.id = w.id"
            ),
            count: format!(
                "SELECT count(*) FROM (SELECT 1 FROM {once} WHERE expires > $1 LIMIT $2) AS live"
            ),
            tally: format!(
                "SELECT count(*), {CLOCK} FROM (SELECT 1 FROM {once} WHERE expires > {CLOCK} LIMIT $1) \
                 AS live"
            ),
            create: format!(
                "INSERT INTO {states} (key, state, expires) SELECT * FROM unnest($1, $2, $3) \
                 AS n(key, state, expires) ORDER BY n.key COLLATE \"C\""
            ),
            change: format!(
                "UPDATE {states} AS t SET state = n.state, expires = n.expires \
                 FROM unnest($1, $2, $3) AS n(key, state, expires) WHERE t.key = n.key"
            ),
            remember: format!(
                "INSERT INTO {once} (key, id, payload, expires, decided, evidence) \
                 SELECT * FROM unnest($1, $2, $3, $4, $5, $6) ON CONFLICT (key, id) DO UPDATE SET \
                 payload = excluded.payload, expires = excluded.expires, \
                 decided = excluded.decided, evidence = excluded.evidence"
            ),
            audit: format!(
                "INSERT INTO {audit} (at, id, policy, key, cost, verdict, remaining, wait_ms) \
                 SELECT to_timestamp(0) + n.at * interval '1 microsecond', n.id, n.policy, n.key, \
                 n.cost, n.verdict, n.remaining, n.wait_ms FROM unnest($1, $2, $3, $4, $5, $6, $7, \
                 $8) AS n(at, id, policy, key, cost, verdict, remaining, wait_ms)"
            ),
            look: format!("{read} {states} WHERE key = ANY($1)"),
            reset: format!("DELETE FROM {states} WHERE key = ANY($1)"),
        }
    }
}

/// Whatever a database has by default: each statement sees what others have committed before it, and
/// what a lock was waited for above all.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/// A client that has gone silent must not hold locks, nor wait for them, for longer than it would
/// have waited itself. Waiting for a lock ends earlier, so that the client hears why.
fn begin(config: &Config) -> String {
    let ms = config.operation_timeout.as_millis().clamp(1, i32::MAX.unsigned_abs().into());
    let lock = ms.div_ceil(2);
    let relaxed = match config.durability {
        Durability::Full | Durability::Unlogged => "",
        Durability::Relaxed => "; SET LOCAL synchronous_commit = off",
    };
    format!(
        "{BEGIN}; SET LOCAL lock_timeout = {lock}; \
         SET LOCAL statement_timeout = {ms}; \
         SET LOCAL idle_in_transaction_session_timeout = {ms}{relaxed}"
    )
}
