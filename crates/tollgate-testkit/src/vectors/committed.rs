//! Written by `cargo xtask generate`: the committed golden vectors.

/// The committed files, in the order of the algorithms.
pub(super) const COMMITTED: [&str; 6] = [
    include_str!("../../vectors/gcra.json"),
    include_str!("../../vectors/token_bucket.json"),
    include_str!("../../vectors/leaky_bucket.json"),
    include_str!("../../vectors/fixed_window.json"),
    include_str!("../../vectors/sliding_window.json"),
    include_str!("../../vectors/sliding_log.json"),
];
