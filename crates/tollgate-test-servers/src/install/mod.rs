//! Programs that tests need: found on this machine, or installed.
//!
//! `apt` installs for everybody; `wheel`, `npm` and `pip` keep pinned downloads in the `cache` of this
//! user, `debian` what another release has, and `crates` what it builds.

mod apt;
mod cache;
mod crates;
mod debian;
pub(super) mod npm;
pub(super) mod pip;
mod wheel;

pub(super) use cache::cached;
pub(super) use crates::Crate;
pub(super) use debian::Packaged;
pub(super) use wheel::{Wheel, make_executable};

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::{Error, Result};

/// Where distributions put servers, though not always on the path of a user.
const BESIDES_THE_PATH: [&str; 4] = ["/usr/local/bin", "/usr/bin", "/usr/sbin", "/sbin"];

/// Finds a program, or installs the package that brings it.
///
/// # Errors
/// When it is missing and cannot be installed; the message says what to install.
pub fn program(name: &str, package: &str) -> Result<PathBuf> {
    match find(name) {
        Some(path) => Ok(path),
        None => apt::install(&[package], || find(name)),
    }
}

/// Sees that a program which was downloaded runs, and installs the libraries that it may be missing.
///
/// # Errors
/// What the program says without them.
pub(super) fn complete(program: &Path, libraries: &[&str]) -> Result<()> {
    let check = || run(Command::new(program).arg("--version"));
    match check() {
        Ok(()) => Ok(()),
        Err(missing) => apt::install(libraries, || check().is_ok().then(|| program.to_owned()))
            .map(drop)
            .map_err(|error| error.during(missing)),
    }
}

/// Looks for a program on the path.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let besides = BESIDES_THE_PATH.iter().map(PathBuf::from);
    let candidates = std::env::split_paths(&path).chain(besides).map(|folder| folder.join(name));
    candidates.into_iter().find(|candidate| candidate.is_file())
}

/// Runs a command to its end.
///
/// # Errors
/// What it said, unless it succeeded.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Error::from(error).during(&name))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!("{name}: {}: {}", output.status, said.trim())))
}
