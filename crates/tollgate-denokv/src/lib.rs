//! Limits in Deno KV: exact across nodes, over KV Connect.
//!
//! [`DenoKv`] is a [`Store`](tollgate_core::store::Store): the compare-and-swap adapter of the core over
//! a thin client for the protocol. A swap is one atomic write that checks the versionstamps of what was
//! read; callers of one process share reads and writes on a key, and races between processes are run
//! again, a bounded number of times.
//!
//! ```no_run
//! use tollgate_core::algorithm::TokenBucket;
//! use tollgate_core::{Limit, Limiter, Quota};
//! use tollgate_denokv::{Config, DenoKv};
//!
//! # async fn run() -> tollgate_core::Result<()> {
//! let config = Config::new("denokv+https://kv.example.com")?.token_from_env()?;
//! let limiter = Limiter::new(DenoKv::connect(&config).await?);
//! let uploads = Limit::new("uploads", TokenBucket::new(10, Quota::per_second(1))?)?;
//! let decision = limiter.check(uploads.charge("ada")).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Map
//! `store` is the front, `backend` turns reads and swaps into messages (`wire`, `key`) and their answers
//! back, `session` knows where to send them and with which token (`metadata`, `date`); `tollgate-net`
//! carries them and says whether they got out.
//!
//! Why a client of our own: those that exist send an atomic write again when its answer is lost, which
//! would charge twice, and wait without a deadline.
//!
//! Needs a tokio runtime with its clock and network enabled.

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
pub use store::{DenoKv, Traffic};
