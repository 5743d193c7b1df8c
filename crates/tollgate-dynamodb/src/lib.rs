//! Limits in DynamoDB: durable and exact, and a hot key costs one write per round.
//!
//! [`DynamoDb`] is a [`Store`](tollgate_core::store::Store). A key is one item. What waits on a key in
//! this process is decided together, by the pure steps of the core, and written by one conditional
//! write that names the version it was decided over; several keys are one transaction. A process
//! that wrote a key last remembers it and does not read it again: the condition proves it right.
//!
//! ```no_run
//! use tollgate_core::algorithm::TokenBucket;
//! use tollgate_core::{Limit, Limiter, Quota};
//! use tollgate_dynamodb::{Config, DynamoDb};
//!
//! # async fn run() -> tollgate_core::Result<()> {
//! let config = Config::new("dynamodb://limits?region=eu-central-1")?;
//! let limiter = Limiter::new(DynamoDb::open(config).await?);
//! let uploads = Limit::new("uploads", TokenBucket::new(10, Quota::per_second(1))?)?;
//! let decision = limiter.check(uploads.charge("ada")).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Map
//! `store` is the front, over the core's compare-and-swap adapter. `table` is what the adapter asks:
//! `read` and `write` are its two halves, `memory` what saves the first. `item` says what an item
//! looks like, `token` makes versions, `fault` says what an error means, `again` when to repeat.
//! `client` sets Amazon's client up, `credentials` keeps what it signs with, `schema` makes the table,
//! `config` and `url` are settings.
//!
//! Needs a tokio runtime with its clock and network enabled.

mod again;
mod client;
mod config;
mod credentials;
mod fault;
mod item;
mod memory;
mod read;
mod schema;
mod store;
mod table;
mod token;
mod url;
mod write;

pub use config::Config;
pub use store::DynamoDb;
