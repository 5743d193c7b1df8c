//! The server over real sockets, tested with third-party clients.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "in a test, a panic is the message"
)]

mod abuse;
mod api;
mod authentication;
mod backends;
mod browsers;
mod charges;
mod clients;
mod config;
mod drain;
mod every;
mod exact;
#[cfg(feature = "fuzzing")]
mod fuzzing;
mod garbage;
mod generated;
mod grpc;
mod grpc_stream;
mod http;
mod isolation;
mod malformed;
mod metrics;
mod openapi;
mod outages;
mod page;
mod policies;
mod recipes;
mod refunds;
mod refusals;
mod reload;
mod resp;
mod schema;
mod scopes;
mod security;
mod settle;
mod status;
mod stores;
mod support;
mod traces;
mod turns;
