//! Tollgate on Redis: exact across processes, one round trip per decision, many decisions per call.
//!
//! [`Redis`] is the store. It runs Lua scripts ([`script`]) over a
//! [`Transport`](transport::Transport): the [`client`] of this crate, the REST interface of Upstash
//! (feature `upstash`), or one of your own.

mod call;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "client")]
mod config;
mod encode;
mod error_reply;
mod layout;
pub mod script;
pub mod slot;
mod store;
mod text;
pub mod transport;
#[cfg(feature = "upstash")]
pub mod upstash;

#[cfg(feature = "client")]
pub use client::{Inspected, Inspection};
#[cfg(feature = "client")]
pub use config::Config;
pub use layout::KeyLayout;
pub use store::Redis;
