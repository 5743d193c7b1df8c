//! The store against real servers.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod audit;
mod conformance;
mod drops;
mod exact;
mod faults;
mod input;
mod pooler;
mod schema;
mod support;
mod sweep;
mod tls;
mod turns;
