//! Tollgate on Redis: exact across replicas, one round trip per decision, many decisions per call.

#[cfg(feature = "client")]
pub mod client;
pub mod script;
pub mod slot;
pub mod transport;
