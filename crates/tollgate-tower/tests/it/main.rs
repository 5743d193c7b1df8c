//! The middleware against real listeners and real clients. One binary, one module per topic.

mod delays;
mod exact;
mod golden;
mod grpc;
mod keys;
mod outages;
mod readme;
mod replies;
mod rules;
mod settle;
mod spoofing;
mod support;
