//! Decides, exactly and fast, whether a request may pass now.
//!
//! A [`Limiter`] is a store, a clock and a failure policy. A [`Limit`] is a name and an
//! [`algorithm`] with its quota. A [`Charge`] takes units on one key under one limit,
//! and the answer is a [`Decision`]: allowed, denied or never, what is left, and when to come back.
//!
//! ```
//! use tollgate::{Cost, Limit, Limiter, Quota};
//!
//! # fn main() -> tollgate::Result<()> {
//! let limiter = Limiter::in_memory();
//! let uploads = Limit::token_bucket("uploads", 10, Quota::per_second(1))?;
//!
//! let decision = limiter.sync().check(uploads.charge("ada").cost(Cost::new(4)?))?;
//! assert!(decision.is_allowed());
//! assert_eq!(decision.remaining, 6);
//! # Ok(())
//! # }
//! ```
//!
//! # Where to go from here
//! - Several limits at once, all or nothing: [`Admission`].
//! - Which algorithm: [`algorithm`].
//! - Charged at most once, however often a request is sent: [`RequestId`].
//! - What happens when the store cannot answer: [`Limit::on_outage`] and
//!   [`LimiterBuilder`](limiter::LimiterBuilder).
//! - Tests that never sleep: [`ManualClock`].
//! - A store of your own: [`store::Store`]. An algorithm of your own: [`algorithm::Custom`]. What
//!   both need besides: [`authoring`].
//!
//! # Stores
//! [`store::Memory`] and the compare-and-swap adapter [`store::Cas`] need nothing but this crate
//! and are always there. A store that talks to a server is a feature of this crate, named as its
//! module and its address: enabling one adds a module and changes nothing else.

#[cfg(all(doctest, feature = "redis"))]
mod redis_guide;

#[cfg(not(target_arch = "wasm32"))]
pub use tollgate_core::SystemClock;
pub use tollgate_core::{
    Admission, Charge, Clock, Code, Cost, Decision, Error, Forecast, Limit, Limiter, ManualClock,
    Micros, Name, Operation, Outage, OutageMode, Quota, Receipt, RequestId, Result, Rule, Settled,
    Settlement, Verdict,
};
pub use tollgate_core::{algorithm, clock, limiter, store};

/// For authors of stores and algorithms: the whole core. An application needs none of it.
///
/// [`Store`](tollgate_core::store::Store) is the contract of a store and
/// [`Custom`](tollgate_core::algorithm::Custom) that of an algorithm; states, keys, instants and
/// bounds on futures are their vocabulary. A crate that is only a store or an algorithm depends
/// on `tollgate-core` instead.
pub use tollgate_core as authoring;

/// Deno KV: exact across processes, over KV Connect.
///
/// ```no_run
/// use tollgate::denokv::{Config, DenoKv};
/// use tollgate::{Limit, Limiter, Quota};
///
/// # fn example() -> tollgate::Result<()> {
/// let config: Config = "denokv+https://kv.example.com".parse()?;
/// let limiter = Limiter::new(DenoKv::open(config.token_from_env())?);
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "denokv")]
pub use tollgate_denokv as denokv;

/// DynamoDB: durable, exact across processes, one conditional write per round.
///
/// ```no_run
/// use tollgate::dynamodb::{Config, DynamoDb};
/// use tollgate::{Limit, Limiter, Quota};
///
/// # async fn example() -> tollgate::Result<()> {
/// let config: Config = "dynamodb://limits?region=eu-central-1".parse()?;
/// let limiter = Limiter::new(DynamoDb::connect(config).await?);
/// let logins = Limit::gcra("logins", Quota::per_minute(5))?;
/// let decision = limiter.check(logins.charge("ada")).await?;
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "dynamodb")]
pub use tollgate_dynamodb as dynamodb;

/// PostgreSQL: durable, exact across processes, many decisions per transaction.
///
/// ```no_run
/// use tollgate::postgres::{Config, Postgres};
/// use tollgate::{Limit, Limiter, Quota};
///
/// # async fn example() -> tollgate::Result<()> {
/// let config: Config = "postgres://app@localhost/app".parse()?;
/// let limiter = Limiter::new(Postgres::connect(config).await?);
/// let logins = Limit::gcra("logins", Quota::per_minute(5))?;
/// let decision = limiter.check(logins.charge("ada")).await?;
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "postgres")]
pub use tollgate_postgres as postgres;

/// Redis: exact across processes, many decisions per call.
///
/// ```no_run
/// use tollgate::redis::Redis;
/// use tollgate::{Limit, Limiter, Quota};
///
/// # async fn example() -> tollgate::Result<()> {
/// let limiter = Limiter::new(Redis::open("redis://localhost".parse()?)?);
/// let logins = Limit::gcra("logins", Quota::per_minute(5))?;
/// let decision = limiter.check(logins.charge("ada")).await?;
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "redis")]
pub use tollgate_redis as redis;
/// Redis through the REST interface of Upstash.
#[cfg(all(feature = "upstash", not(feature = "redis")))]
pub use tollgate_redis as redis;

/// A SQLite file: durable, exact across the processes of one host, many decisions per commit.
///
/// ```no_run
/// use tollgate::sqlite::{Config, Sqlite};
/// use tollgate::{Limit, Limiter, Quota};
///
/// # async fn example() -> tollgate::Result<()> {
/// let limiter = Limiter::new(Sqlite::open(Config::new("limits.db"))?);
/// let logins = Limit::gcra("logins", Quota::per_minute(5))?;
/// let decision = limiter.check(logins.charge("ada")).await?;
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "sqlite")]
pub use tollgate_sqlite as sqlite;

/// The code in the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
