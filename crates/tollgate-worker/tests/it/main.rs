//! The stores and the ready Worker in workerd.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod conformance;
mod exact;
mod example;
mod ready;
mod sizes;
mod support;
