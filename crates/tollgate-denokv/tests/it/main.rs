//! The store against the real server.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod conformance;
mod exact;
mod expiry;
mod faults;
mod front;
mod input;
mod support;
mod tls;
mod tokens;
mod turns;
