//! What else one can do with the same server, each over its pool of connections with prepared
//! statements: transactions as two other limiters make them, and what a bare statement costs.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, NoTls, Statement};

use super::contender::Kind;
use super::load::Random;
use super::options::Options;
use super::psql;
use crate::Result;

const RETRIES: u32 = 3;
const BASE_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_millis(500);
const CAPACITY: f64 = 1e12;
const REFILL_PER_SECOND: f64 = 1e3;

/// A rival and its pool.
pub(crate) struct Rival {
    kind: Kind,
    idle: Mutex<Vec<Connection>>,
    places: Semaphore,
}

struct Connection {
    client: Client,
    statements: Vec<Statement>,
    number: i64,
}

impl Rival {
    pub(crate) async fn open(kind: Kind, options: &Options) -> Result<Self> {
        let (tables, statements) = texts(kind);
        psql(options.url(), tables)?;
        let mut idle = Vec::new();
        for number in 0..options.connections {
            let number = i64::try_from(number).unwrap_or_default();
            let connection = connect(options.url(), statements, number).await;
            idle.push(connection.map_err(|error| error.to_string())?);
        }
        let places = Semaphore::new(idle.len());
        Ok(Self { kind, idle: Mutex::new(idle), places })
    }

    /// One decision: how often it had to be tried again. The connection is released during a
    /// wait.
    pub(crate) async fn decide(&self, key: &str, id: u128) -> Option<u32> {
        let mut random = Random(u64::try_from(id >> 64).unwrap_or_default());
        for retry in 0..=RETRIES {
            if self.attempt(key, id).await? {
                return Some(retry);
            }
            let bound = (BASE_BACKOFF * (1 << retry)).min(MAX_BACKOFF).as_micros();
            let wait = random.next() % u64::try_from(bound).unwrap_or(1).max(1);
            tokio::time::sleep(Duration::from_micros(wait)).await;
        }
        None
    }

    /// Whether it was decided: false after a conflict, `None` if it failed.
    async fn attempt(&self, key: &str, id: u128) -> Option<bool> {
        let _place = self.places.acquire().await.ok()?;
        let connection = self.idle().pop()?;
        let decided = match self.kind {
            Kind::Serializable => serializable(&connection, key, id).await,
            Kind::Advisory => advisory(&connection, key).await,
            Kind::Upsert => connection.run(0, &[&key]).await,
            _ => connection.run(0, &[&connection.number]).await,
        };
        let is_decided = match decided {
            Ok(()) => Some(true),
            Err(error) if !is_conflict(&error) => None,
            Err(_) => connection.client.batch_execute("ROLLBACK").await.ok().map(|()| false),
        };
        self.idle().push(connection);
        is_decided
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    async fn run(
        &self,
        statement: usize,
        values: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> std::result::Result<(), Error> {
        self.client.execute(&self.statements[statement], values).await.map(drop)
    }
}

async fn connect(url: &str, texts: &[&str], number: i64) -> std::result::Result<Connection, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let mut statements = Vec::new();
    for text in texts {
        statements.push(client.prepare(text).await?);
    }
    Ok(Connection { client, statements, number })
}

fn is_conflict(error: &Error) -> bool {
    let conflicts = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::UNIQUE_VIOLATION,
    ];
    error.code().is_some_and(|code| conflicts.contains(code))
}

/// Tables and statements of a rival.
fn texts(kind: Kind) -> (&'static str, &'static [&'static str]) {
    match kind {
        Kind::Serializable => (
            "CREATE TABLE bench.buckets (key text PRIMARY KEY, tokens float8 NOT NULL,
                                          refilled timestamptz NOT NULL);
             CREATE TABLE bench.ids (id uuid PRIMARY KEY, key text, verdict text, tokens float8,
                                     wait_ms int8, at timestamptz DEFAULT now())",
            &[
                "SELECT verdict, tokens FROM bench.ids WHERE id = $1::text::uuid",
                "SELECT tokens, extract(epoch FROM now() - refilled)::float8
                 FROM bench.buckets WHERE key = $1 FOR UPDATE",
                "INSERT INTO bench.buckets VALUES ($1, $2, now())",
                "UPDATE bench.buckets SET tokens = $2, refilled = now() WHERE key = $1",
                "INSERT INTO bench.ids VALUES ($1::text::uuid, $2, 'ALLOWED', $3, 0)",
            ],
        ),
        Kind::Advisory => (
            "CREATE TABLE bench.states
                (key text PRIMARY KEY, state text NOT NULL, expires_at int8)",
            &[
                "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
                "SELECT state FROM bench.states WHERE key = $1",
                "INSERT INTO bench.states VALUES ($1, $2, $3) ON CONFLICT (key)
                 DO UPDATE SET state = excluded.state, expires_at = excluded.expires_at",
            ],
        ),
        Kind::Upsert => (
            "CREATE TABLE bench.counters (key text PRIMARY KEY, n int8 NOT NULL)
             WITH (fillfactor = 70)",
            &["INSERT INTO bench.counters AS c VALUES ($1, 1)
               ON CONFLICT (key) DO UPDATE SET n = c.n + 1 RETURNING n"],
        ),
        _ => (
            "CREATE TABLE bench.rows (number int8 PRIMARY KEY, n int8 NOT NULL)
             WITH (fillfactor = 10);
             INSERT INTO bench.rows SELECT i, 0 FROM generate_series(0, 9999) AS i",
            &["UPDATE bench.rows SET n = n + 1 WHERE number = $1"],
        ),
    }
}

/// As the reference service does it: look for the id, lock the bucket, decide, write both, commit.
async fn serializable(
    connection: &Connection,
    key: &str,
    id: u128,
) -> std::result::Result<(), Error> {
    let (client, statements) = (&connection.client, &connection.statements);
    let id = format!("{id:032x}");
    client.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE").await?;
    if client.query_opt(&statements[0], &[&id]).await?.is_none() {
        let bucket = client.query_opt(&statements[1], &[&key]).await?;
        let tokens = match &bucket {
            Some(row) => {
                let (tokens, elapsed): (f64, f64) = (row.get(0), row.get(1));
                (tokens + elapsed * REFILL_PER_SECOND).min(CAPACITY) - 1.0
            }
            None => CAPACITY - 1.0,
        };
        let write = if bucket.is_some() { 3 } else { 2 };
        connection.run(write, &[&key, &tokens]).await?;
        connection.run(4, &[&id, &key, &tokens]).await?;
    }
    client.batch_execute("COMMIT").await
}

/// As the reference library does it: begin, lock, read, write, commit.
async fn advisory(connection: &Connection, key: &str) -> std::result::Result<(), Error> {
    let (client, statements) = (&connection.client, &connection.statements);
    client.batch_execute("BEGIN").await?;
    client.query(&statements[0], &[&key]).await?;
    let row = client.query_opt(&statements[1], &[&key]).await?;
    let count = row.and_then(|row| row.get::<_, String>(0).parse::<i64>().ok()).unwrap_or(0) + 1;
    connection.run(2, &[&key, &count.to_string(), &count]).await?;
    client.batch_execute("COMMIT").await
}

/// The server and the settings that decide what a commit costs.
pub(crate) const SETTINGS: &str = "SELECT 'Server: PostgreSQL ' \
    || current_setting('server_version') || ', ' || string_agg(name || ' = ' || setting, ', ') \
    || '.' FROM pg_settings WHERE name IN \
    ('fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'wal_sync_method')";
