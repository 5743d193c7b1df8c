//! The store on real files.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod conformance;
mod crash;
mod drops;
mod exact;
mod faults;
mod logs;
mod schema;
mod support;
mod sweep;
mod turns;
