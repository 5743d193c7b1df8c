//! Tollgate on Redis: exact across replicas, one round trip per decision, many decisions per call.

#[cfg(feature = "client")]
pub mod client;
mod layout;
pub mod script;
pub mod slot;
mod store;
mod text;
pub mod transport;
#[cfg(feature = "upstash")]
pub mod upstash;

pub use layout::KeyLayout;
pub use store::RedisStore;

/// The code in the documentation compiles.
#[cfg(all(doctest, feature = "upstash-native"))]
#[doc = include_str!("../../../docs/redis-upstash.md")]
struct Guide;
