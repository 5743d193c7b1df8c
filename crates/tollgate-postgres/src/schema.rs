//! Creates and migrates the tables.
//!
//! The version of the schema is stored beside the tables. Processes that start at the same time
//! wait for each other at an advisory lock that ends with the transaction.

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};
use tollgate_core::{Code, Error, Result};

use crate::audit;
use crate::config::Durability;
use crate::connection::{Connection, Shared, within};
use crate::error::QueryError;
use crate::sql::BEGIN;

/// The version that this code needs.
const VERSION: i32 = 2;
const LOCK: &str = "migrate";

/// Checks the tables. Creates or migrates them if needed and allowed.
pub(crate) async fn ensure(shared: &Shared, connection: &Connection) -> Result<()> {
    let config = &shared.config;
    let found = within(config.operation_timeout, find(shared, &connection.client)).await?;
    match found.version {
        newer if newer > VERSION => Err(too_new(newer)),
        VERSION if found.has_audit || config.audit.is_none() => Ok(()),
        _ if config.migrates => shared.migrate_over(connection).await,
        older => Err(too_old(older)),
    }
}

/// Creates or migrates the tables in one transaction.
pub(crate) async fn migrate(shared: &Shared, connection: &Connection) -> Result<(), QueryError> {
    let client = &connection.client;
    let lock = shared.names.lock_number(LOCK);
    client.batch_execute(&format!("{BEGIN}; SELECT pg_advisory_xact_lock({lock})")).await?;
    let done = steps(shared, client).await;
    client.batch_execute(if done.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
    done
}

async fn steps(shared: &Shared, client: &Client) -> Result<(), QueryError> {
    let found = find(shared, client).await?;
    match found.version {
        newer if newer > VERSION => return Err(QueryError::Rejected(too_new(newer))),
        0 => client.batch_execute(&create(shared, found.has_schema)).await?,
        1 => client.batch_execute(&from_version_1(shared)).await?,
        _ => {}
    }
    if shared.config.audit.is_some() && !found.has_audit {
        audit::create(shared, client).await?;
    }
    Ok(())
}

/// What the catalogue shows.
struct Catalogue {
    /// The version of the schema; 0 without tables.
    version: i32,
    has_schema: bool,
    has_audit: bool,
}

/// Queries the catalogue tables. Functions such as `to_regclass` may answer from a cache that is
/// older than the lock.
async fn find(shared: &Shared, client: &Client) -> Result<Catalogue, QueryError> {
    let query = "SELECT current_setting('server_encoding'), \
                 EXISTS (SELECT FROM pg_namespace WHERE nspname = $1), \
                 coalesce(bool_or(c.relname = $2), false), \
                 coalesce(bool_or(c.relname = $3), false) \
                 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
                 WHERE n.nspname = $1 AND c.relname IN ($2, $3)";
    let (schema, [version, audit]) = (shared.names.raw_schema(), shared.names.raw_tables());
    let parameters: [(&(dyn ToSql + Sync), Type); 3] =
        [(&schema, Type::TEXT), (&version, Type::TEXT), (&audit, Type::TEXT)];
    let row = client.query_typed_one(query, &parameters).await?;
    let encoding: &str = row.try_get(0)?;
    if !matches!(encoding, "UTF8" | "SQL_ASCII") {
        let message = format!("the encoding of the database is {encoding}; accepted: UTF8");
        return Err(QueryError::Rejected(Error::config("url", message)));
    }
    let version = if row.try_get(2)? {
        let query = format!("SELECT version FROM {}", shared.names.version);
        client.query_typed_one(&query, &[]).await?.try_get(0)?
    } else {
        0
    };
    Ok(Catalogue { version, has_schema: row.try_get(1)?, has_audit: row.try_get(3)? })
}

/// Free space on every page keeps updates within the page (HOT). An index on `expires` would
/// prevent HOT updates, so there is none.
fn create(shared: &Shared, has_schema: bool) -> String {
    let names = &shared.names;
    let (schema, states, records, version) =
        (&names.schema, &names.states, &names.records, &names.version);
    let table = match shared.config.durability {
        Durability::Unlogged => "UNLOGGED TABLE",
        Durability::Full | Durability::Relaxed => "TABLE",
    };
    // `CREATE SCHEMA IF NOT EXISTS` needs a permission even if the schema exists.
    let create_schema =
        if has_schema { String::new() } else { format!("CREATE SCHEMA IF NOT EXISTS {schema};") };
    format!(
        "{create_schema}
         CREATE {table} {states} (key text COLLATE \"C\" PRIMARY KEY, state text NOT NULL, \
         expires int8 NOT NULL) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
         COMMENT ON TABLE {states} IS 'Tollgate: the state of each key; expires in microseconds';
         CREATE {table} {records} (key text COLLATE \"C\" PRIMARY KEY, value text NOT NULL, \
         expires int8 NOT NULL) WITH (autovacuum_vacuum_scale_factor = 0.05);
         COMMENT ON TABLE {records} IS 'Tollgate: request ids that were charged';
         CREATE TABLE {version} (version int4 NOT NULL);
         INSERT INTO {version} VALUES ({VERSION})"
    )
}

/// Version 1 stored request ids in six columns, and rows without a state. States and permissions
/// stay; the request ids of the last minutes are forgotten.
fn from_version_1(shared: &Shared) -> String {
    let names = &shared.names;
    let (states, records, version) = (&names.states, &names.records, &names.version);
    format!(
        "TRUNCATE {records};
         ALTER TABLE {records} DROP COLUMN id, DROP COLUMN payload, DROP COLUMN decided;
         ALTER TABLE {records} RENAME COLUMN evidence TO value;
         ALTER TABLE {records} ADD PRIMARY KEY (key);
         DELETE FROM {states} WHERE state = '';
         UPDATE {version} SET version = 2"
    )
}

fn too_new(found: i32) -> Error {
    let message =
        format!("the tables have version {found}; this program supports up to version {VERSION}");
    Error::new(Code::ConfigInvalid, message).with_field("table")
}

fn too_old(found: i32) -> Error {
    let message =
        format!("the tables have version {found}; this program needs version {VERSION}: migrate");
    Error::new(Code::ConfigInvalid, message).with_field("table")
}
