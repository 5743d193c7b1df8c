//! The stores, the ready Worker and the example Worker, in workerd.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod conformance;
mod example;
mod kept;
mod measured;
mod ready;
mod reclaim;
mod support;
