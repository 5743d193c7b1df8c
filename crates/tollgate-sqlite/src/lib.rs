//! Limits in one file: durable and exact, without a server.
//!
//! [`Sqlite`] is a [`Store`](tollgate_core::store::Store). One thread of the process writes: it takes
//! all admissions that wait, on one key and on many, and decides them in one transaction, which reads
//! the values, runs the pure steps of the core, appends every value once to a log and waits for the disk
//! once. A hot key therefore costs one commit per round, not one per request. What is in the log is folded
//! into a table later, sorted, a part of it with every round. Other processes on the host may use the same
//! file: whoever writes holds it alone.
//!
//! ```
//! use tollgate_core::algorithm::TokenBucket;
//! use tollgate_core::{Limit, Limiter, Quota};
//! use tollgate_sqlite::{Config, Sqlite};
//!
//! # fn main() -> tollgate_core::Result<()> {
//! # let folder = tollgate_test_servers::Folder::new("doc").unwrap();
//! # let path = folder.path().join("limits.db");
//! let limiter = Limiter::new(Sqlite::open(Config::new(path))?);
//! let uploads = Limit::new("uploads", TokenBucket::new(10, Quota::per_second(1))?)?;
//! # tollgate_testkit::runtime::block_on(async {
//! let decision = limiter.check(uploads.charge("ada")).await?;
//! assert_eq!(decision.remaining, 9);
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! # Map
//! `store` is the front: it copies what callers ask for into `job`s. `writer` is the thread that takes
//! many of them at once, `round` makes one transaction of them, `turn` lets processes take turns.
//! `recent` knows what is in the logs, `fold` moves it into the tables. `reader` is the thread that looks
//! without writing. `file` opens the database, `schema` makes its tables, `sql` has every statement,
//! `sweep` reclaims, `fault` says what an error means.
//!
//! Needs no runtime.

mod config;
mod fault;
mod file;
mod fold;
mod job;
mod pause;
mod queue;
mod reader;
mod recent;
mod round;
mod schema;
mod sql;
mod store;
mod sweep;
mod turn;
mod writer;

pub use config::{Config, Durability};
pub use store::Sqlite;
