//! The tables, and how they come to be: made and changed by the store itself.
//!
//! Steps are numbered and never change once released; the number of the last one that was done is
//! kept beside the tables. Whoever starts at the same time waits at an advisory lock that ends with
//! the transaction.

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};
use tollgate_core::{Code, Error, Result};

use crate::audit;
use crate::config::{Config, Durability};
use crate::fault::Fault;
use crate::link::{Link, Shared, within};
use crate::sql::BEGIN;

/// The step that makes what this version of the code needs.
const VERSION: i32 = 1;
const LOCK: &str = "migrate";

/// Makes the tables if they are not as needed and that is allowed, else checks them.
pub(crate) async fn ensure(shared: &Shared, link: &Link) -> Result<()> {
    let config = &shared.config;
    let found = within(config.operation_timeout, find(config, &link.client)).await?;
    match found.version {
        newer if newer > VERSION => Err(too_new(newer)),
        VERSION if found.has_audit || config.audit.is_none() => Ok(()),
        _ if config.migrates => shared.migrate_over(link).await,
        older => Err(too_old(older)),
    }
}

/// Makes and changes the tables.
pub(crate) async fn migrate(shared: &Shared, link: &Link) -> Result<(), Fault> {
    let (config, client) = (&shared.config, &link.client);
    let lock = config.names.lock_number(LOCK);
    client.batch_execute(&format!("{BEGIN}; SELECT pg_advisory_xact_lock({lock})")).await?;
    let done = steps(config, client).await;
    client.batch_execute(if done.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
    done
}

async fn steps(config: &Config, client: &Client) -> Result<(), Fault> {
    let found = find(config, client).await?;
    if found.version > VERSION {
        return Err(Fault::Refused(too_new(found.version)));
    }
    if found.version < 1 {
        client.batch_execute(&first(config, found.has_schema)).await?;
    }
    if config.audit.is_some() && !found.has_audit {
        audit::make(config, client).await?;
    }
    Ok(())
}

/// What there is.
struct Found {
    /// The step that was done last; 0 for none.
    version: i32,
    has_schema: bool,
    has_audit: bool,
}

/// Asks the catalogue itself: shorter ways may answer from a cache that is older than the lock.
async fn find(config: &Config, client: &Client) -> Result<Found, Fault> {
    let query = "SELECT current_setting('server_encoding'), \
                 EXISTS (SELECT FROM pg_namespace WHERE nspname = $1), \
                 coalesce(bool_or(c.relname = $2), false), coalesce(bool_or(c.relname = $3), false) \
                 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
                 WHERE n.nspname = $1 AND c.relname IN ($2, $3)";
    let (schema, [version, audit]) = (config.names.raw_schema(), config.names.raw_tables());
    let named: [(&(dyn ToSql + Sync), Type); 3] =
        [(&schema, Type::TEXT), (&version, Type::TEXT), (&audit, Type::TEXT)];
    let row = client.query_typed_one(query, &named).await?;
    let encoding: &str = row.try_get(0)?;
    if !matches!(encoding, "UTF8" | "SQL_ASCII") {
        let message = format!("the database is encoded in {encoding}; accepted: UTF8");
        return Err(Fault::Refused(Error::config("url", message)));
    }
    let version = if row.try_get(2)? {
        let query = format!("SELECT version FROM {}", config.names.version);
        client.query_typed_one(&query, &[]).await?.try_get(0)?
    } else {
        0
    };
    Ok(Found { version, has_schema: row.try_get(1)?, has_audit: row.try_get(3)? })
}

/// Room on every page keeps updates within it (HOT), and no index on `expires` lets them be so.
fn first(config: &Config, has_schema: bool) -> String {
    let names = &config.names;
    let (schema, states, once, version) =
        (&names.schema, &names.states, &names.once, &names.version);
    let kind = if config.durability == Durability::Unlogged { "UNLOGGED TABLE" } else { "TABLE" };
    // Asked first: making a schema needs a permission even where it exists.
    let make_schema =
        if has_schema { String::new() } else { format!("CREATE SCHEMA IF NOT EXISTS {schema};") };
    format!(
        "{make_schema}
         CREATE {kind} {states} (key text COLLATE \"C\" PRIMARY KEY, state text NOT NULL, \
         expires int8 NOT NULL) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
         COMMENT ON TABLE {states} IS 'Tollgate: what each key remembers; expires in microseconds';
         CREATE {kind} {once} (key text COLLATE \"C\", id text COLLATE \"C\", \
         payload text NOT NULL, expires int8 NOT NULL, decided int8 NOT NULL, \
         evidence text NOT NULL, PRIMARY KEY (key, id)) \
         WITH (autovacuum_vacuum_scale_factor = 0.05);
         COMMENT ON TABLE {once} IS 'Tollgate: request ids that were charged';
         CREATE TABLE {version} (version int4 NOT NULL);
         INSERT INTO {version} VALUES (1)"
    )
}

fn too_new(found: i32) -> Error {
    let message = format!("the tables have version {found}, this program knows up to {VERSION}");
    Error::new(Code::ConfigInvalid, message).with_field("table")
}

fn too_old(found: i32) -> Error {
    let message = format!("the tables have version {found}, this program needs {VERSION}: migrate");
    Error::new(Code::ConfigInvalid, message).with_field("table")
}
