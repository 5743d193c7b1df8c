//! Tollgate on Redis: exact across replicas, one round trip per decision, many decisions per call.

pub mod script;
pub mod transport;
