//! One file per command.

mod banner;
pub(crate) mod bench;
pub(crate) mod client;
pub(crate) mod config;
pub(crate) mod docs;
pub(crate) mod doctor;
mod endpoint;
pub(crate) mod migrate;
mod reload;
pub(crate) mod serve;

use std::fmt;

use tollgate_server::Config;

/// The error of a command.
pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Wrong arguments.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A request that the server refused, with the exit code that says so.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

/// What a program that calls a command learns from it.
pub(crate) mod code {
    /// Denied, refused by a rule of the server, or invalid.
    pub(crate) const DENIED: u8 = 1;
    /// Wrong arguments, or a request that no server accepts.
    pub(crate) const USAGE: u8 = 2;
    /// No answer, or one without a decision.
    pub(crate) const NOT_ASKED: u8 = 3;
}

/// Warns of variables of the environment that look like settings and are none.
pub(crate) fn unknown_variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    Config::unknown_variables(names)
}
