//! A store from its URL. [`STORES`] is the registration: the server, the command line and the table
//! of the documentation have each store from there.

use std::fmt::Write as _;
use std::future::ready;
use std::sync::Arc;

use tollgate::authoring::BoxFuture;
use tollgate::denokv::{self, DenoKv};
use tollgate::dynamodb::{self, DynamoDb};
use tollgate::postgres::{self, Postgres};
use tollgate::redis::{self, Redis};
use tollgate::sqlite::{self, Sqlite};
use tollgate::store::memory::MemoryBuilder;
use tollgate::store::parameters::ParameterSpec;
use tollgate::store::{BoxStore, Retries, Store};
use tollgate::{Error, Result};
use tollgate_service::Policies;
use tollgate_service::config::values::nearest;

use crate::telemetry::{Instrumented, Telemetry};

/// Opens the store of an address, which includes the scheme.
type Open = fn(&str, Options) -> BoxFuture<'_, Result<BoxStore>>;
/// Creates or migrates the tables of the store of an address.
type Migrate = fn(&str) -> BoxFuture<'_, Result<()>>;

/// A store that can be opened by its address.
#[derive(Clone, Copy, Debug)]
pub struct StoreSpec {
    /// The schemes of its addresses.
    pub schemes: &'static [&'static str],
    /// An address. Opening it does not connect; a path is relative to `./`.
    pub example: &'static str,
    /// When to choose it, for the documentation.
    pub choose_for: &'static str,
    /// Whether it can bound how many request ids it keeps for a policy.
    pub bounds_ids: bool,
    /// The parameters of its addresses.
    pub parameters: fn() -> Vec<ParameterSpec>,
    /// Whether an address is valid; opens nothing.
    validate: fn(&str) -> Result<()>,
    open: Open,
    /// Absent if it needs no tables.
    migrate: Option<Migrate>,
}

/// Every store that can be opened.
pub const STORES: &[StoreSpec] = &[
    StoreSpec {
        schemes: &["memory"],
        example: "memory:",
        choose_for: "one process, or a limit per process is what is meant",
        bounds_ids: true,
        parameters: || MemoryBuilder::parameters().collect(),
        validate: |address| address.parse::<MemoryBuilder>().map(drop),
        open: |address, options| Box::pin(ready(memory(address, options))),
        migrate: None,
    },
    StoreSpec {
        schemes: &["redis", "rediss", "redis-sentinel"],
        example: "redis://127.0.0.1:1",
        choose_for: "several processes: the usual choice",
        bounds_ids: false,
        parameters: || redis::Config::parameters().collect(),
        validate: |address| address.parse::<redis::Config>().map(drop),
        open: |address, options| Box::pin(ready(redis(address, options))),
        migrate: None,
    },
    StoreSpec {
        schemes: &["redis-cluster", "rediss-cluster"],
        example: "redis-cluster://127.0.0.1:1",
        choose_for: "more keys or load than one Redis carries",
        bounds_ids: false,
        parameters: || redis::Config::parameters().collect(),
        validate: |address| address.parse::<redis::Config>().map(drop),
        open: |address, options| Box::pin(ready(redis(address, options))),
        migrate: None,
    },
    StoreSpec {
        schemes: &["postgres", "postgresql"],
        example: "postgres://127.0.0.1:1/t",
        choose_for: "a PostgreSQL is there and a Redis is not; billing",
        bounds_ids: true,
        parameters: || postgres::Config::parameters().collect(),
        validate: |address| address.parse::<postgres::Config>().map(drop),
        open: |address, options| Box::pin(ready(postgres(address, options))),
        migrate: Some(|address| Box::pin(async move { Postgres::migrate(address.parse()?).await })),
    },
    StoreSpec {
        schemes: &["dynamodb"],
        example: "dynamodb://limits?region=eu-central-1",
        choose_for: "what runs on AWS and wants no server of its own",
        bounds_ids: false,
        parameters: || dynamodb::Config::parameters().collect(),
        validate: |address| address.parse::<dynamodb::Config>().map(drop),
        open: |address, options| Box::pin(ready(dynamodb(address, options))),
        migrate: Some(|address| Box::pin(async move { DynamoDb::migrate(address.parse()?).await })),
    },
    StoreSpec {
        schemes: &["denokv+http", "denokv+https"],
        example: "denokv+http://token@127.0.0.1:1",
        choose_for: "what runs on Deno",
        bounds_ids: false,
        parameters: || denokv::Config::parameters().collect(),
        validate: |address| address.parse::<denokv::Config>().map(drop),
        open: |address, options| Box::pin(ready(denokv(address, options))),
        migrate: None,
    },
    StoreSpec {
        schemes: &["sqlite"],
        example: "sqlite:./tollgate.db",
        choose_for: "one machine, and limits that outlive a restart; no server",
        bounds_ids: true,
        parameters: || sqlite::Config::parameters().collect(),
        validate: |address| address.parse::<sqlite::Config>().map(drop),
        open: |address, options| Box::pin(sqlite(address, options)),
        migrate: Some(|address| Box::pin(async move { Sqlite::migrate(&address.parse()?) })),
    },
];

/// What a store is opened with, besides its address.
struct Options {
    scheme: &'static str,
    /// The retries of the configuration; without them, each store has its own default.
    retries: Option<Retries>,
    telemetry: Option<Arc<Telemetry>>,
}

impl Options {
    /// The settings of a store, with the retries of the configuration.
    fn retries<C>(&self, config: C, set: fn(C, Retries) -> C) -> C {
        match self.retries {
            Some(retries) => set(config, retries),
            None => config,
        }
    }

    /// Erases a store, and instruments it unless it is in this process. One box either way: each
    /// box costs an allocation per call.
    fn erase(self, store: impl Store + 'static) -> BoxStore {
        let Self { scheme, telemetry, .. } = self;
        match telemetry.filter(|_| !store.capability().in_process) {
            Some(telemetry) => BoxStore::new(Instrumented::new(store, scheme, telemetry)),
            None => BoxStore::new(store),
        }
    }
}

/// Opens the store of an address such as `memory:`.
///
/// # Errors
/// `config_invalid` naming `store` when no store has that scheme; the error of the store when it
/// cannot be opened. No error contains the address: it may contain a password.
pub async fn open(address: &str, retries: Option<Retries>) -> Result<BoxStore> {
    open_with(address, retries, None).await
}

/// Opens the store of an address, and records its calls.
pub(crate) async fn open_with(
    address: &str,
    retries: Option<Retries>,
    telemetry: Option<Arc<Telemetry>>,
) -> Result<BoxStore> {
    let (scheme, spec) = find(address)?;
    (spec.open)(address, Options { scheme, retries, telemetry }).await
}

/// Whether a store accepts an address.
///
/// # Errors
/// `config_invalid` naming `store` when no store has that scheme, or the part of the address.
pub(crate) fn validate(address: &str) -> Result<()> {
    (find(address)?.1.validate)(address)
}

/// Whether the store of an address can keep the bounds of policies. If no store has that scheme,
/// another error says so.
///
/// # Errors
/// `config_invalid` naming the setting of a policy.
pub(crate) fn check_bounds(address: &str, policies: &Policies) -> Result<()> {
    match find(address) {
        Ok((_, spec)) if !spec.bounds_ids => policies.refuse_bounds_on_ids(),
        _ => Ok(()),
    }
}

/// The parameters of the store of an address; none if no store has that scheme.
pub(crate) fn parameters(address: &str) -> Option<Vec<ParameterSpec>> {
    find(address).ok().map(|(_, spec)| (spec.parameters)())
}

fn find(address: &str) -> Result<(&'static str, &'static StoreSpec)> {
    let given = scheme_of(address);
    let known = |spec: &'static StoreSpec| {
        spec.schemes.iter().find(|scheme| given == Some(**scheme)).map(|scheme| (*scheme, spec))
    };
    STORES.iter().find_map(known).ok_or_else(|| {
        // Nothing of it is repeated: any part of it may be a password.
        let near = nearest(given.unwrap_or(address), schemes());
        let message = match (given, near) {
            (Some(_), Some(near)) => format!("has an unknown scheme; did you mean {near:?}?"),
            (None, Some(near)) => format!("has no scheme; did you mean \"{near}:\"?"),
            (_, None) => {
                let schemes: Vec<&str> = schemes().collect();
                format!("has no scheme of a store; accepted: {}:", schemes.join(":, "))
            }
        };
        Error::config("store", message)
    })
}

/// Every scheme that names a store.
pub fn schemes() -> impl Iterator<Item = &'static str> {
    STORES.iter().flat_map(|spec| spec.schemes).copied()
}

/// The scheme of an address, which names the store.
#[must_use]
pub fn scheme_of(address: &str) -> Option<&str> {
    address.split_once(':').map(|(scheme, _)| scheme)
}

/// Creates or migrates the tables of a store; `false` if it needs none.
///
/// # Errors
/// As [`open`]; when the store cannot be reached or refuses.
pub async fn migrate(address: &str) -> Result<bool> {
    match find(address)?.1.migrate {
        Some(migrate) => migrate(address).await.map(|()| true),
        None => open(address, None).await.map(|_| false),
    }
}

/// DynamoDB. It connects at the first call. Only [`migrate`] creates its table: servers rarely have
/// that right.
fn dynamodb(address: &str, options: Options) -> Result<BoxStore> {
    let config = options.retries(address.parse()?, dynamodb::Config::retries);
    Ok(options.erase(DynamoDb::open(config)?))
}

/// PostgreSQL. It connects at the first call, and creates its tables then.
fn postgres(address: &str, options: Options) -> Result<BoxStore> {
    let config = options.retries(address.parse()?, postgres::Config::retries);
    Ok(options.erase(Postgres::open(config)?))
}

/// Deno KV. It connects at the first call. The token is in the URL or in the environment.
fn denokv(address: &str, options: Options) -> Result<BoxStore> {
    let config = options.retries(address.parse()?, denokv::Config::retries);
    Ok(options.erase(DenoKv::open(config.token_from_env())?))
}

/// SQLite. The file is opened at once: an unusable path must not look like an outage.
async fn sqlite(address: &str, options: Options) -> Result<BoxStore> {
    let store = Sqlite::connect(address.parse()?).await?;
    let lost = store.lost_commits();
    if lost > 0 {
        let meaning = "what they had charged is lost";
        tracing::error!(lost, meaning, "the write-ahead log is damaged: commits were lost");
    }
    if let Some(telemetry) = &options.telemetry {
        telemetry.metrics.lost_commits(lost);
    }
    Ok(options.erase(store))
}

/// Redis: one server, a cluster, or behind sentinels. It connects at the first call.
fn redis(address: &str, options: Options) -> Result<BoxStore> {
    let store = Redis::open(options.retries(address.parse()?, redis::Config::retries))?;
    tokio::spawn(log_warnings(store.clone()));
    Ok(options.erase(store))
}

/// Logs settings of the servers that endanger counters. It does not retry: readiness reports a
/// server that is down, and `doctor` runs the same checks.
async fn log_warnings(store: Redis) {
    match store.inspect().await {
        Ok(inspection) => {
            inspection.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        }
        // An outage is reported by what calls the store.
        Err(error) if error.code().is_outage() => tracing::debug!("Redis does not answer: {error}"),
        Err(error) => tracing::warn!("the settings of Redis cannot be read: {error}"),
    }
}

/// The memory store.
fn memory(address: &str, options: Options) -> Result<BoxStore> {
    Ok(options.erase(address.parse::<MemoryBuilder>()?.build()?))
}

/// The parameters of every store, as tables in Markdown. Stores with the same ones share a table.
#[must_use]
pub fn parameters_tables() -> String {
    let mut tables = String::new();
    for stores in STORES.chunk_by(|a, b| (a.parameters)() == (b.parameters)()) {
        let schemes = stores.iter().flat_map(|spec| spec.schemes);
        let schemes: Vec<String> = schemes.map(|scheme| format!("`{scheme}:`")).collect();
        let _ = writeln!(tables, "{}:\n", schemes.join(", "));
        tables.push_str("| parameter | default | accepted | meaning |\n|---|---|---|---|\n");
        let parameters = stores.first().map(|spec| (spec.parameters)()).unwrap_or_default();
        for ParameterSpec { name, default, accepted, meaning } in parameters {
            let _ = writeln!(tables, "| `{name}` | {default} | {accepted} | {meaning} |");
        }
        tables.push('\n');
    }
    tables
}
