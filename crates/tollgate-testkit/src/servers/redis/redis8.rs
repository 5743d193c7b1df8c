//! Redis 8, also where the distribution still has Redis 7.

use std::process::Command;

use super::{Redis, RedisBuilder};
use crate::servers::error::Result;
use crate::servers::install::{Packaged, find};
use crate::servers::process::Launch;

const PACKAGED: Packaged =
    Packaged { release: "trixie", package: "redis-server", program: "redis-server" };

/// Starts servers of Redis 8, while [`Redis`] is whatever this machine has. What is started is used as
/// a [`Redis`] is.
#[derive(Clone, Copy, Debug)]
pub struct Redis8;

impl Redis8 {
    /// Starts a server without a password.
    ///
    /// # Errors
    /// When it cannot be downloaded or started.
    pub fn start() -> Result<Redis> {
        Self::builder().start()
    }

    /// Says more about the server before it is started.
    #[must_use]
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default().redis_8()
    }
}

/// The one on this machine if it is one, else Debian's.
pub(super) fn launch() -> Result<Launch> {
    let installed = find("redis-server").filter(|program| {
        let said = Command::new(program).arg("--version").output();
        said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains(" v=8."))
    });
    installed.map_or_else(|| PACKAGED.launch(), |program| Ok(Launch::new(program)))
}
