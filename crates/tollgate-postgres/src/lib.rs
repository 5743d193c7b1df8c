//! Limits in PostgreSQL: durable and exact across processes, with one commit per round on a hot
//! key.
//!
//! [`Postgres`] is a [`Store`](tollgate_core::store::Store). Waiting admissions of one process
//! share transactions. A transaction locks the rows of all keys in one order, reads them, runs the
//! pure steps of the core, writes every key once, and commits. The database's clock decides; it is
//! read after the locks are held. A hot key costs one row version and one commit per round, not per
//! request.
//!
//! # Map
//! `store` copies admissions into `job`s and queues them. `worker` takes many at once, `round`
//! decides them in one transaction, and `rows` translates values to rows. `reads` reads and resets.
//! `connection` connects (`tls`), `schema` migrates, `sweep` deletes expired rows, `request_ids`
//! bounds them, `audit` writes history. `sql` contains every statement, `names` quotes, `error`
//! classifies errors, `config` and `url` are settings.
//!
//! Needs a tokio runtime with time and network enabled, and PostgreSQL 14 or newer.

mod audit;
mod config;
mod connection;
mod error;
mod forget;
mod job;
mod locked_rows;
mod names;
mod reads;
mod request_ids;
mod round;
mod rows;
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
