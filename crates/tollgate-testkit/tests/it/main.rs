//! The test kit's own tests: the algorithms against the model, and the suite against stores.
#![expect(
    clippy::print_stdout,
    reason = "seeds and what a run covered are printed for whoever reads a failure"
)]

mod algorithms;
