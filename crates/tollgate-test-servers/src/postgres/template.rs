//! The data of an empty server. Making it takes seconds, copying it a fraction of one.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::PgVersion;
use super::programs;
use crate::error::{Error, Result};
use crate::install::{cached, run};
use crate::process::User;

/// Copies the data of an empty server to a path that is not there yet.
pub(super) fn copy_to(path: &Path, version: PgVersion) -> Result<()> {
    let template = template(version)?;
    run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(template).arg(path))
}

/// Gives a file or folder to the user as whom the server runs.
pub(super) fn give(path: &Path, user: Option<User>) -> Result<()> {
    let Some(User { uid, gid }) = user else {
        return Ok(());
    };
    chown(path, Some(uid), Some(gid)).map_err(|error| Error::from(error).during(path.display()))
}

fn template(version: PgVersion) -> Result<PathBuf> {
    let programs = programs::folder(version)?;
    let user = programs::user()?;
    // Data belongs to the very release and user who made it.
    let release = release(&programs)?;
    let owner = user.map_or("me".to_owned(), |user| user.uid.to_string());
    let folder = cached(&format!("postgres-data-{release}-{owner}"), |folder| {
        give(folder, user)?;
        let mut initdb = Command::new(programs.join("initdb"));
        initdb.arg("-D").arg(folder.join("data")).args(["-A", "trust", "-U", "postgres"]);
        initdb.args(["-E", "UTF8", "--no-locale", "--no-sync"]).current_dir("/");
        if let Some(User { uid, gid }) = user {
            initdb.uid(uid).gid(gid);
        }
        run(&mut initdb)
    })?;
    Ok(folder.join("data"))
}

/// The release, as letters that a path may have.
fn release(programs: &Path) -> Result<String> {
    let said = Command::new(programs.join("postgres")).arg("--version").output()?;
    let said = String::from_utf8_lossy(&said.stdout);
    // postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)
    let release = said.split_whitespace().nth(2);
    let release = release.ok_or_else(|| Error::new(format!("not a release: {said}")))?;
    Ok(release.to_owned())
}
