//! The store against servers that speak as DynamoDB does.
#![expect(clippy::panic, clippy::unwrap_used, reason = "in a test, a panic is the message")]
#![expect(clippy::print_stdout, reason = "the measured numbers are printed")]

mod amazon;
mod conformance;
mod costs;
mod faults;
mod hot;
mod input;
mod processes;
mod reading;
mod refusals;
mod schema;
mod skew;
mod support;
mod turns;
