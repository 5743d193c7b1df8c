//! The Tollgate server as a library: HTTP, gRPC and RESP over one engine.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use tollgate_server::{Config, Server};
//!
//! let server = Server::bind(Config::built_in()?).await?;
//! server.run(async { /* ready when the server shall end */ }).await;
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//! - [`engine`]: a request in, a decision out; the same for all protocols.
//! - [`policy`]: which limits apply to a request.
//! - [`store`]: a store from its address.
//! - [`metrics`], [`trace`]: what is told to whoever watches.
//! - `http`, `grpc`, `resp`: the wire. Handlers decode, ask the engine, encode.
//! - `listen`: sockets, bounds on connections, and how they end.
//! - `fuzzing`: what is fuzzed, behind a feature of that name.

pub mod auth;
pub mod config;
pub mod engine;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod grpc;
mod http;
mod listen;
pub mod metrics;
pub mod policy;
mod resp;
mod server;
pub mod store;
pub mod trace;

pub use config::Config;
pub use server::{Addresses, Server};
