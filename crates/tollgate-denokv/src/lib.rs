//! Limits in Deno KV: exact across processes, over the KV Connect protocol.
//!
//! [`DenoKv`] is a [`Store`](tollgate_core::store::Store): the compare-and-swap adapter of the core
//! over a small client for the protocol. A swap is one atomic write that checks the versionstamps
//! of what was read. Callers of one process share reads and writes on a key. A process that loses a
//! race to another one retries a bounded number of times.
//!
//! # Map
//! `store` wraps the adapter. `backend` translates reads and swaps to messages (`wire`, `key`) and
//! back. `session` holds the endpoints and the token of the database (`metadata`, `date`).
//! `tollgate-net` sends requests and reports whether they were sent. `config` and `url` are
//! settings.
//!
//! Why its own client: existing ones repeat an atomic write without an answer, which would charge
//! twice, and they have no timeouts.
//!
//! Needs a tokio runtime with time and network enabled.

mod backend;
mod config;
mod date;
mod key;
mod metadata;
mod session;
mod store;
mod url;
mod wire;

pub use config::Config;
pub use store::DenoKv;
