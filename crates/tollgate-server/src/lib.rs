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
//! Policies, the engine and the HTTP API are those of `tollgate-service`; this crate adds sockets.
//!
//! # Layout
//! - [`config`]: settings from flags, environment and file.
//! - [`store`]: a store from its address.
//! - `activity`: which keys are throttled and which spend the most.
//! - `status`, `page`: the state of this server, and the page that shows it; `operators` serves
//!   them.
//! - `hosts`: the names by which clients reach a listener.
//! - `http`, `grpc`, `resp`: the protocols. Handlers decode, call the engine, encode.
//! - `reload`: configurations that are applied while the server runs.
//! - `listen`: sockets, TLS, bounds on connections, and shutdown; `workers`: the threads that serve
//!   connections.
//! - [`telemetry`]: metrics, traces and logs.
//! - `fuzzing`: the fuzz targets, behind a feature of that name. They need private modules, and are
//!   kept with the tests.

mod activity;
mod app;
pub mod config;
#[cfg(feature = "fuzzing")]
#[path = "../tests/fuzzing/mod.rs"]
pub mod fuzzing;
mod grpc;
mod hosts;
mod http;
mod listen;
mod operators;
mod page;
mod reload;
mod resp;
mod server;
mod status;
pub mod store;
pub mod telemetry;
mod workers;

pub use config::Config;
pub use reload::{Reloaded, Reloader, Watch};
pub use server::{Addresses, Server};
pub use tollgate_service::{engine, policy};
