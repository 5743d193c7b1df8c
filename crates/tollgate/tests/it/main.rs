//! The limiter as applications use it: over the memory store, the reference store and the
//! compare-and-swap adapter, healthy and in outages. Nothing sleeps: time is a [`ManualClock`].
//!
//! [`ManualClock`]: tollgate::ManualClock
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test, a panic is the message"
)]
#![expect(clippy::print_stdout, reason = "seeds are printed for the reader of a failure")]

mod agreement;
mod batches;
mod breaker;
mod concurrency;
mod contention;
mod deadlines;
mod endpoints;
mod erased;
mod extremes;
mod input;
mod layered;
mod local;
mod observing;
mod outages;
mod ownership;
mod peeks;
mod request_ids;
mod support;
