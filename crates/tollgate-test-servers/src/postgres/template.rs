//! The data of an empty server. Making it takes seconds, copying it a fraction of one.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::PgVersion;
use super::programs::{self, User};
use crate::error::{AtPath, Error, Result};
use crate::install::{cached, run};

/// Copies the data of an empty server to a path that is not there yet.
pub(super) fn copy_to(path: &Path, version: PgVersion) -> Result<()> {
    let template = template(version)?;
    run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(template).arg(path))
}

/// Changes the owner of a file or folder to the user that runs the server.
pub(super) fn give(path: &Path, user: Option<User>) -> Result<()> {
    let Some(User { uid, gid }) = user else {
        return Ok(());
    };
    chown(path, Some(uid), Some(gid)).at(path)
}

/// Runs a command as this user, if there is one.
pub(super) fn run_as(command: &mut Command, user: Option<User>) {
    if let Some(User { uid, gid }) = user {
        command.uid(uid).gid(gid);
    }
}

fn template(version: PgVersion) -> Result<PathBuf> {
    let programs = programs::folder(version)?;
    let user = programs::user()?;
    // Data is valid for one release and one user.
    let release = release(&programs)?;
    let owner = user.map_or("me".to_owned(), |user| user.uid.to_string());
    let folder = cached(&format!("postgres-data-{release}-{owner}"), |folder| {
        give(folder, user)?;
        let mut initdb = Command::new(programs.join("initdb"));
        initdb.arg("-D").arg(folder.join("data")).args(["-A", "trust", "-U", "postgres"]);
        initdb.args(["-E", "UTF8", "--no-locale", "--no-sync"]).current_dir("/");
        run_as(&mut initdb, user);
        run(&mut initdb)
    })?;
    Ok(folder.join("data"))
}

/// The release, as letters that a path may have.
fn release(programs: &Path) -> Result<String> {
    let output = Command::new(programs.join("postgres")).arg("--version").output()?;
    let output = String::from_utf8_lossy(&output.stdout);
    // postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)
    let release = output.split_whitespace().nth(2);
    let release = release.ok_or_else(|| Error::new(format!("not a release: {output}")))?;
    Ok(release.to_owned())
}
