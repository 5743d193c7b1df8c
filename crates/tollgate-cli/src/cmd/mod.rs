//! One file per command.

mod announce;
pub(crate) mod bench;
pub(crate) mod client;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod manual;
pub(crate) mod migrate;
pub(crate) mod serve;

/// What a command fails with.
pub(crate) type Failed = Box<dyn std::error::Error>;
