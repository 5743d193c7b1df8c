//! One file per command.

mod banner;
pub(crate) mod bench;
pub(crate) mod client;
pub(crate) mod config;
pub(crate) mod docs;
pub(crate) mod doctor;
pub(crate) mod migrate;
mod reload;
pub(crate) mod serve;

/// The error of a command.
pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;
