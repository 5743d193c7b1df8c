//! The test kit's own tests: the algorithms against the model, the suite against a correct store,
//! and against broken ones, each of which it must catch.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "in a test, a panic is the message"
)]
#![expect(
    clippy::print_stdout,
    reason = "seeds and what a run covered are printed for the reader of a failure"
)]

mod algorithms;
mod broken;
mod clocked_store;
mod compensate;
mod conformance;
mod contention;
mod fault;
mod flawed_store;
mod reclaiming_store;
mod swaps;
mod turns;
mod vectors;
mod versioned_table;
