//! Deno KV, served by its own self-hosted server.

use std::path::PathBuf;

use super::error::Result;
use super::install::Crate;

const SERVER: Crate =
    Crate { name: "denokv", version: "0.14.0", program: "denokv", features: None };

/// The server, built if it is not there.
pub(super) fn program() -> Result<PathBuf> {
    SERVER.built()
}
