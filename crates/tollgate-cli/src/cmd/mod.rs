//! One file per command.

pub(crate) mod config;
pub(crate) mod serve;

/// What a command fails with.
pub(crate) type Failed = Box<dyn std::error::Error>;
