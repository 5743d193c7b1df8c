//! DynamoDB, as others serve it on one machine.

use std::path::PathBuf;

use super::error::Result;
use super::install::Crate;

/// Only what answers requests: no console, no import.
const DYNOXIDE: Crate = Crate {
    name: "dynoxide-rs",
    version: "3.2.0",
    program: "dynoxide",
    features: Some("native-sqlite,http-server,cli"),
};

/// The server, built if it is not there.
pub(super) fn dynoxide() -> Result<PathBuf> {
    DYNOXIDE.built()
}
