//! Reads and swaps as statements.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tollgate_core::store::cas::{Entry, Snapshot, Swap, Version, Versioned, VersionedCapability};
use tollgate_core::{Error, Micros, Result};
use worker::D1Database;
use worker::send::IntoSendFuture as _;
use worker::wasm_bindgen::JsValue;

use crate::error::call_failed;
use crate::name;
use crate::sql::{self, ReadRow};

/// How many values one swap may write.
const KEYS_MAX: u32 = 100;
/// D1 accepts texts of up to 2,000,000 bytes.
const VALUE_MAX_BYTES: u32 = 1_000_000;
const NAME_MAX_BYTES: usize = 8_192;
/// How many expired values one call deletes.
const PAGE: u32 = 1_000;
/// What SQLite answers where the table is missing.
const NO_TABLE: &str = "no such table";

/// Writes a JSON array of rows `[name, value, keep_until, version]` if every row still has its
/// version, where `null` stands for no row; one row comes back for each that was written.
const SWAP: &str = "WITH new AS (SELECT json_extract(value, '$[0]') AS name, \
     json_extract(value, '$[1]') AS value, json_extract(value, '$[2]') AS keep_until, \
     json_extract(value, '$[3]') AS version FROM json_each(?1)) \
     INSERT INTO tollgate_values (name, value, keep_until, version) \
     SELECT name, value, keep_until, coalesce(version, 0) + 1 FROM new WHERE NOT EXISTS \
     (SELECT 1 FROM new AS each LEFT JOIN tollgate_values AS old ON old.name = each.name \
     WHERE old.version IS NOT each.version) \
     ON CONFLICT (name) DO UPDATE SET value = excluded.value, keep_until = excluded.keep_until, \
     version = excluded.version RETURNING 1 AS number";
const RECLAIM: &str = "DELETE FROM tollgate_values WHERE name IN \
     (SELECT name FROM tollgate_values WHERE keep_until <= json_extract(?1, '$[0]') \
     LIMIT json_extract(?1, '$[1]')) RETURNING 1 AS number";

/// The database.
#[derive(Debug)]
pub(super) struct Backend(pub(super) D1Database);

#[derive(Deserialize)]
struct Row {
    #[expect(dead_code, reason = "rows are counted")]
    number: u32,
}

impl Versioned for Backend {
    fn capability(&self) -> VersionedCapability {
        VersionedCapability::multi_key(KEYS_MAX).with_max_state_bytes(VALUE_MAX_BYTES)
    }

    async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        let names: Vec<Cow<'_, str>> = keys.iter().map(|key| stored(key)).collect();
        let argument = sql::names_json(&names);
        let rows: Vec<ReadRow> = self.run(sql::READ, &argument).into_send().await?;
        let entry = |row: ReadRow| Entry { text: row.value, version: Version::Number(row.version) };
        Ok(Snapshot { entries: sql::in_order(keys.len(), rows, entry), clock: None })
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        let rows = writes.iter().map(|write| {
            let version = match write.expect {
                Some(Version::Number(version)) => Some(*version),
                Some(Version::Text(_)) | None => None,
            };
            (stored(write.key), write.value, sql::integer(write.keep_until), version)
        });
        let argument = sql::json(&rows.collect::<Vec<_>>());
        let written: Vec<Row> = self.run(SWAP, &argument).into_send().await?;
        Ok(written.len() == writes.len())
    }
}

impl Backend {
    pub(super) async fn reclaim(&self, now: Micros) -> Result<usize> {
        let argument = sql::json(&(sql::integer(now), PAGE));
        let deleted: Vec<Row> = self.run(RECLAIM, &argument).into_send().await?;
        Ok(deleted.len())
    }

    /// Runs a statement with its argument. One that finds no table has done nothing: it is repeated
    /// once there is one.
    async fn run<T: DeserializeOwned>(&self, query: &str, argument: &str) -> Result<Vec<T>> {
        let mut rows = self.rows(query, &[argument.into()]).await;
        if rows.as_ref().is_err_and(|error| error.to_string().contains(NO_TABLE)) {
            let created = self.rows::<Row>(sql::CREATE, &[]).await;
            created.map_err(|error| failed(&error).not_sent())?;
            rows = self.rows(query, &[argument.into()]).await;
        }
        rows.map_err(|error| failed(&error))
    }

    async fn rows<T: DeserializeOwned>(
        &self,
        query: &str,
        values: &[JsValue],
    ) -> worker::Result<Vec<T>> {
        let result = self.0.prepare(query).bind(values)?.all().await?;
        match result.error() {
            Some(message) => Err(message.into()),
            None => result.results(),
        }
    }
}

fn stored(name: &str) -> Cow<'_, str> {
    name::stored(name, NAME_MAX_BYTES)
}

fn failed(error: &worker::Error) -> Error {
    call_failed("D1 failed", error)
}
