//! The Redis client and store against real servers.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "in a test, a panic is the message"
)]
#![expect(clippy::print_stdout, reason = "seeds are printed to repeat a failure")]

mod client;
mod store;
#[cfg(feature = "upstash-native")]
mod upstash;
