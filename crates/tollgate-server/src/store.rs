//! A store from its address. One line per store: the scheme, and what opens it.

use std::future::ready;

use tollgate::denokv::{self, DenoKv};
use tollgate::dynamodb::{self, DynamoDb};
use tollgate::postgres::{self, Postgres};
use tollgate::redis::{self, Redis};
use tollgate::sqlite::{self, Sqlite};
use tollgate::store::{BoxStore, Memory, Retries};
use tollgate::{BoxFuture, Error, Result};

/// Opens a store; the address is whole, its scheme included.
pub(crate) type Open = fn(&str, Option<Retries>) -> BoxFuture<'_, Result<BoxStore>>;

/// Every store that can be opened, by scheme.
const STORES: &[(&str, Open)] = &[
    ("memory", |address, _| Box::pin(ready(memory(address)))),
    ("dynamodb", |address, retries| Box::pin(dynamodb(address, retries))),
    ("redis", |address, retries| Box::pin(ready(redis(address, retries)))),
    ("rediss", |address, retries| Box::pin(ready(redis(address, retries)))),
    ("redis-cluster", |address, retries| Box::pin(ready(redis(address, retries)))),
    ("rediss-cluster", |address, retries| Box::pin(ready(redis(address, retries)))),
    ("postgres", |address, retries| Box::pin(ready(postgres(address, retries)))),
    ("postgresql", |address, retries| Box::pin(ready(postgres(address, retries)))),
    ("redis-sentinel", |address, retries| Box::pin(ready(redis(address, retries)))),
    ("denokv+http", |address, retries| Box::pin(ready(denokv(address, retries)))),
    ("denokv+https", |address, retries| Box::pin(ready(denokv(address, retries)))),
    ("sqlite", |address, _| Box::pin(ready(sqlite(address)))),
];

/// Opens the store of an address such as `memory:`.
///
/// # Errors
/// `config_invalid` naming `store` when no store has that scheme; what the store says when it cannot
/// be opened. No error holds the address: it may hold a password.
pub async fn open(address: &str, retries: Option<Retries>) -> Result<BoxStore> {
    find(address)?(address, retries).await
}

/// What opens the store of an address.
///
/// # Errors
/// `config_invalid` naming `store` when no store has that scheme.
pub(crate) fn find(address: &str) -> Result<Open> {
    let known = STORES.iter().find(|(scheme, _)| scheme_of(address) == Some(*scheme));
    let unknown = || {
        let schemes: Vec<&str> = schemes().collect();
        let accepted = format!("accepted: {}:", schemes.join(":, "));
        Error::config("store", format!("has no scheme that is known; {accepted}"))
    };
    known.map(|(_, open)| *open).ok_or_else(unknown)
}

/// Every scheme that names a store.
pub fn schemes() -> impl Iterator<Item = &'static str> {
    STORES.iter().map(|(scheme, _)| *scheme)
}

/// The scheme of an address, which names the store.
#[must_use]
pub fn scheme_of(address: &str) -> Option<&str> {
    address.split_once(':').map(|(scheme, _)| scheme)
}

/// Makes or changes what a store needs before it is used; whether it needed anything.
///
/// # Errors
/// As [`open`]; when the store cannot be reached or refuses.
pub async fn migrate(address: &str) -> Result<bool> {
    match scheme_of(address) {
        Some("postgres" | "postgresql") => {
            Postgres::migrate(postgres::Config::new(address)?).await?;
        }
        Some("sqlite") => Sqlite::migrate(&sqlite::Config::from_url(address)?)?,
        Some("dynamodb") => DynamoDb::migrate(dynamodb::Config::new(address)?).await?,
        _ => return open(address, None).await.map(|_| false),
    }
    Ok(true)
}

/// The settings of a store, with the retries of the configuration if it names any.
fn with<C>(config: C, retries: Option<Retries>, set: fn(C, Retries) -> C) -> C {
    match retries {
        Some(retries) => set(config, retries),
        None => config,
    }
}

/// DynamoDB; it connects when it is first asked, and its table is made by [`migrate`] alone: programs
/// that decide seldom have the right to make tables.
async fn dynamodb(address: &str, retries: Option<Retries>) -> Result<BoxStore> {
    let config = dynamodb::Config::new(address)?;
    let config = with(config, retries, dynamodb::Config::retries);
    Ok(BoxStore::new(DynamoDb::open(config).await?))
}

/// PostgreSQL; it connects when it is first asked, and makes its tables then.
fn postgres(address: &str, retries: Option<Retries>) -> Result<BoxStore> {
    let config = postgres::Config::new(address)?;
    let config = with(config, retries, postgres::Config::retries);
    Ok(BoxStore::new(Postgres::open(config)?))
}

/// Deno KV; it connects when it is first asked. The token stands in the address or in the environment.
fn denokv(address: &str, retries: Option<Retries>) -> Result<BoxStore> {
    let config = denokv::Config::new(address)?.token_from_env()?;
    let config = with(config, retries, denokv::Config::retries);
    Ok(BoxStore::new(DenoKv::open(&config)?))
}

/// A file of this machine, opened at once: a path that cannot be used must not look like an outage.
fn sqlite(address: &str) -> Result<BoxStore> {
    Ok(BoxStore::new(Sqlite::open(sqlite::Config::from_url(address)?)?))
}

/// Redis alone, with TLS, as a cluster or behind sentinels; it connects when it is first asked.
fn redis(address: &str, retries: Option<Retries>) -> Result<BoxStore> {
    let config = with(address.parse()?, retries, redis::Config::retries);
    let store = Redis::open(config)?;
    tokio::spawn(warn_about(store.clone()));
    Ok(BoxStore::new(store))
}

/// Says what the settings of the servers may do to counters, or why they cannot be asked. One that is
/// away is not asked again: the readiness of the store tells about that, and `doctor` asks the same
/// questions.
async fn warn_about(store: Redis) {
    match store.inspect().await {
        Ok(inspection) => {
            inspection.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        }
        Err(error) => tracing::warn!("Redis cannot be asked: {error}"),
    }
}

/// `memory:`, with nothing behind the colon.
fn memory(address: &str) -> Result<BoxStore> {
    match address.strip_prefix("memory:") {
        Some("") => Ok(BoxStore::new(Memory::builder().build()?)),
        _ => Err(Error::config("store", "takes nothing after `memory:`")),
    }
}
