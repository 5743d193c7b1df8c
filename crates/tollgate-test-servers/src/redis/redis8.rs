//! Where Redis 8 is found, also where the distribution still has Redis 7.

use std::process::Command;

use crate::error::Result;
use crate::install::{Packaged, find};
use crate::process::Launch;

const PACKAGED: Packaged =
    Packaged { release: "trixie", packages: &["redis-server"], program: "redis-server" };

/// The one on this machine if it is one, else Debian's.
pub(super) fn launch() -> Result<Launch> {
    let installed = find("redis-server").filter(|program| {
        let said = Command::new(program).arg("--version").output();
        said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains(" v=8."))
    });
    installed.map_or_else(|| PACKAGED.launch(), |program| Ok(Launch::new(program)))
}
