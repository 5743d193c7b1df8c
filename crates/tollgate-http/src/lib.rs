//! Rate limits on the wire: what clients read about a quota, a denial or an error.
//!
//! The middleware, the server and the edge share this crate, so that a client gets the same fields,
//! problem documents and statuses from each of them. The crate has no sockets, no runtime and no
//! clock, and it builds for `wasm32-unknown-unknown`.
//!
//! | module | holds |
//! |---|---|
//! | [`names`] | the names of the `RateLimit` fields |
//! | [`fields`] | writes the `RateLimit` fields in one or several dialects |
//! | [`rate_limit_hints`] | reads `Retry-After` and the `RateLimit` fields of a response |
//! | [`problem`] | problem documents (RFC 9457), and the same as gRPC statuses |
//! | [`status`] | error codes as HTTP statuses, gRPC codes and RESP prefixes |
//! | [`hash`] | keyed hashes of subjects |
//!
//! None of the `RateLimit` fields is a standard yet: each dialect names the revision it follows.

pub mod fields;
mod grpc;
pub mod hash;
pub mod names;
pub mod problem;
pub mod rate_limit_hints;
mod short_text;
pub mod status;
mod structured;

pub use fields::{Dialect, LimitFields, QuotaPolicy, RateLimitFields, Reset};
pub use hash::HashKey;
pub use problem::Problem;
pub use short_text::ShortText;
pub use status::{GrpcCode, Status};
