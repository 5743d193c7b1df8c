//! Limits in one SQLite file: durable and exact across the processes of a host, without a server.
//!
//! [`Sqlite`] is a [`Store`](tollgate_core::store::Store). One thread of the process writes. It
//! decides all waiting admissions, on any keys, in one transaction: it reads the values, runs the
//! pure steps of the core, appends every value once to a log, and commits. A hot key costs one
//! commit per round, not per request. The log is compacted into a table later, in key order, a part
//! with every round. Other processes of the host may use the same file: one holds the write lock at
//! a time.
//!
//! # Map
//! `store` copies admissions into `job`s and queues them. `writer` is the thread that decides many
//! at once, `round` is one transaction, `round_size` bounds it, `write_fairness_lock` orders the
//! processes that write.
//! `log_index` indexes the logs, `compaction` moves them into the tables. `reader` is the thread
//! that reads. `file` opens the database, `schema` creates its tables, `sql` contains the
//! statements, `sweep` deletes expired values, `backoff` waits for locks, `error` classifies
//! errors, `config` holds settings.
//!
//! Needs no async runtime.

mod backoff;
mod compaction;
mod config;
mod error;
mod file;
mod job;
mod log_index;
mod reader;
mod round;
mod round_size;
mod schema;
mod sql;
mod store;
mod sweep;
mod wal;
mod write_fairness_lock;
mod writer;

pub use config::{Config, Durability};
pub use store::Sqlite;
