//! Limits in DynamoDB: durable and exact across processes, with one write per round on a hot key.
//!
//! [`DynamoDb`] is a [`Store`](tollgate_core::store::Store). A key is one item. Waiting admissions
//! on a key of one process are decided together, by the pure steps of the core. One conditional
//! write, on the version that was decided over, stores the result; several keys are one
//! transaction. A process that wrote a key last has it cached and does not read it: the condition
//! proves that it is current.
//!
//! # Map
//! `store` wraps the compare-and-swap adapter of the core. `table` implements what the adapter
//! needs, with `read`, `write` and `write_cache`. `item` defines the attributes, `version`
//! generates versions, `error` classifies errors, `retry` bounds and spaces attempts. `client`
//! configures the AWS SDK, `credentials` fetches in the background, `schema` creates the table,
//! `config` and `url` are settings.
//!
//! Needs a tokio runtime with time and network enabled.

mod client;
mod config;
mod credentials;
mod error;
mod item;
mod read;
mod retry;
mod schema;
mod store;
mod table;
mod url;
mod version;
mod write;
mod write_cache;

pub use config::Config;
pub use store::DynamoDb;
