//! A client layer that respects the limits of other services, and shares a quota between processes.
//!
//! The layer follows `Retry-After`, and all dialects of the `RateLimit` fields when nothing is
//! left. It ignores malformed fields and those of cached responses.

mod cooldowns;
mod layer;
mod service;

pub use layer::RespectLimitsLayer;
pub use service::{NotSent, RespectLimits, RespectLimitsFuture};
