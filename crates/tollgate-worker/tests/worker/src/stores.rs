//! The stores under test, by their names.

use tollgate_testkit::conformance::Options;
use tollgate_worker::api::DATABASE;
use tollgate_worker::{D1, DurableObjects, WorkersKv, upstash};
use worker::{Env, Response, Result};

use crate::clauses;
use crate::fragile::REFUSE_FULL;
use crate::objects::{RECORDS_MAX, options};

/// Enough that two subjects are rarely in one object.
const SHARDS: u32 = 64;

/// Runs a clause over a store, or takes one unit.
pub(crate) async fn run(env: &Env, store: &str, clause: (&str, &str)) -> Result<Response> {
    match store {
        "sqlite" => over_objects(env, "SQLITE", SHARDS, clause).await,
        "key_value" => over_objects(env, "KEY_VALUE", SHARDS, clause).await,
        "single" => over_objects(env, "SQLITE", 1, clause).await,
        "inside_sqlite" => inside(env, "INSIDE_SQLITE", clause).await,
        "inside_key_value" => inside(env, "INSIDE_KEY_VALUE", clause).await,
        "fragile" => over_objects(env, "FRAGILE", SHARDS, clause).await,
        "fragile_single" => over_objects(env, "FRAGILE", 1, clause).await,
        "d1" if clause.0 == "count" => count(env).await,
        "d1" => {
            if clause.0 == "a_full_store_admits_none" {
                env.d1(DATABASE)?.prepare(REFUSE_FULL).run().await?;
            }
            let store = D1::new(env.d1(DATABASE)?).max_request_ids(RECORDS_MAX);
            let options = Options { records_max: Some(RECORDS_MAX), ..Options::default() };
            clauses::run(store, options, clause).await
        }
        "kv" => {
            let store = WorkersKv::new(env.kv("KV")?);
            clauses::run(store, Options::default(), clause).await
        }
        "upstash" => {
            let [url, token] = ["UPSTASH_URL", "UPSTASH_TOKEN"].map(|name| env.var(name));
            let store = upstash::open(&url?.to_string(), &token?.to_string()).map_err(text)?;
            let options = Options { injects_time: Some(true), ..Options::default() };
            clauses::run(store, options, clause).await
        }
        _ => Response::error("no such store", 404),
    }
}

async fn over_objects(
    env: &Env,
    binding: &str,
    shards: u32,
    clause: (&str, &str),
) -> Result<Response> {
    let store = DurableObjects::with_shards(env.durable_object(binding)?, shards);
    clauses::run(store.map_err(text)?, options(None), clause).await
}

async fn inside(env: &Env, binding: &str, (clause, prefix): (&str, &str)) -> Result<Response> {
    let object = env.durable_object(binding)?.get_by_name(prefix)?;
    object.fetch_with_str(&format!("https://inside/{clause}/{prefix}")).await
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn text(error: tollgate_core::Error) -> worker::Error {
    worker::Error::from(error.to_string())
}

/// How many values are in the database.
async fn count(env: &Env) -> Result<Response> {
    let count = "SELECT count(*) AS number FROM tollgate_values";
    let count = env.d1(DATABASE)?.prepare(count).first::<u32>(Some("number")).await?;
    Response::ok(count.unwrap_or_default().to_string())
}
