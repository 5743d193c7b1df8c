//! Limits in PostgreSQL: durable and exact, and a hot key does not collapse.
//!
//! [`Postgres`] is a [`Store`](tollgate_core::store::Store). Waiting admissions of this process
//! share transactions: one locks all their keys in one order, reads them, runs the pure steps of the
//! core, writes every key once, and commits once. The database's clock decides, read after the locks
//! are held. A hot key therefore costs one row version and one commit per round, not one per request.
//!
//! ```no_run
//! use tollgate_core::algorithm::TokenBucket;
//! use tollgate_core::{Limit, Limiter, Quota};
//! use tollgate_postgres::{Config, Postgres};
//!
//! # async fn run() -> tollgate_core::Result<()> {
//! let config = Config::new("postgres://app:secret@db.example.com/app?sslmode=verify-full")?;
//! let limiter = Limiter::new(Postgres::connect(config).await?);
//! let uploads = Limit::new("uploads", TokenBucket::new(10, Quota::per_second(1))?)?;
//! let decision = limiter.check(uploads.charge("ada")).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Map
//! `store` is the front: it copies what callers ask for into `job`s. `worker` takes many of them at
//! once; `round` makes one transaction of them, and `draft` is its pure part. `look` reads and
//! resets. `link` connects (`tls`), `schema` migrates, `sweep` reclaims, `audit` keeps history.
//! `sql` has every statement, `names` quotes, `fault` says what an error means.
//!
//! Needs a tokio runtime with its clock and network enabled, and PostgreSQL 14 or newer.

mod audit;
mod config;
mod draft;
mod fault;
mod ids;
mod job;
mod link;
mod look;
mod names;
mod record;
mod retry;
mod round;
mod schema;
mod sql;
mod store;
mod sweep;
mod tls;
mod url;
mod worker;

pub use audit::Retention;
pub use config::{Config, Durability};
pub use store::Postgres;
