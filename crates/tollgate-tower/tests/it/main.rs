//! The middleware against real listeners and real clients. One binary, one module per topic.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "in a test, a panic is the message"
)]

mod at_end;
mod delays;
mod exact;
mod golden;
mod grpc;
mod keys;
mod outages;
mod readme;
mod refusals;
mod respect_limits;
mod rules;
mod settle;
mod spoofing;
mod support;
