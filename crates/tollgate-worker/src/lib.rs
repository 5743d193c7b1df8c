//! Tollgate in Cloudflare Workers: limits in Durable Objects, in D1 and in Workers KV.
//!
//! | store | guarantee | a decision costs |
//! |---|---|---|
//! | [`DurableObjects`] | exact | one call to an object, one write |
//! | [`D1`] | exact; races are lost and repeated | a read and a write of a row |
//! | [`WorkersKv`] | **approximate**: last write wins, seen elsewhere later | a read and a write |
//!
//! [`ObjectStore`] is the store of code that runs in an object itself. With the feature `upstash`,
//! `tollgate-redis` runs over `fetch` ([`upstash`]). With the feature `api`, [`api`] serves the
//! HTTP API of the server. [`guard`] limits the routes of a Worker of your own.
//!
//! # Requests and futures
//! The runtime ties I/O to the request that began it: a request that waits for the future of
//! another one would wait for ever if that one is cancelled. So nothing here is shared between
//! requests but plain values: [`DurableObjects`] and [`WorkersKv`] may be kept for all requests,
//! [`D1`], whose callers share reads and writes, is opened for each of them ([`PerCall`] does so).
//! [`limiter()`] makes a limiter that requests may share.

#[cfg(feature = "api")]
pub mod api;
mod clock;
mod d1;
mod durable_object;
mod error;
pub mod guard;
#[cfg(feature = "api")]
mod incoming;
mod join;
mod kv;
mod limiter;
mod name;
mod per_call;
mod races;
mod sql;
#[cfg(feature = "upstash")]
pub mod upstash;

pub use clock::WorkerClock;
pub use d1::D1;
pub use durable_object::{DurableObjects, LimitsObject, ObjectStore, abort_on_panic};
pub use kv::WorkersKv;
pub use limiter::limiter;
pub use per_call::PerCall;
pub use tollgate_core::Result;
