//! A polite client: it keeps to what servers say about their limits, and a fleet of clients keeps
//! to one quota together.
//!
//! Servers are believed when they say `Retry-After`, or that nothing is left in any dialect of the
//! rate limit fields. What cannot be read is ignored, as are fields of cached responses.

mod future;
mod layer;
mod pace;
mod service;
mod shared;

pub use future::PoliteFuture;
pub use layer::PoliteLayer;
pub use service::{Polite, Postponed};
