//! Packages of Python that tests run, pinned by a file of requirements with hashes.

use std::path::PathBuf;
use std::process::Command;

use super::cache::{cached, named_after};
use super::{program, run};
use crate::error::{Error, Result};

/// The folder in which the requirements are installed: wheels only, so that the installation runs
/// no code of a package.
///
/// # Errors
/// When Python or pip cannot be installed, or a package cannot be downloaded or has another hash.
pub(crate) fn installed(name: &str, requirements: &str) -> Result<PathBuf> {
    // Compiled modules fit one version of Python.
    let version = python()?.arg("--version").output()?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    cached(&named_after(name, &[requirements, &version]), |folder| {
        let list = folder.join("requirements.txt");
        std::fs::write(&list, requirements).map_err(Error::from)?;
        let mut pip = python()?;
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip.args(["--require-hashes", "--only-binary=:all:", "--requirement"]).arg(&list);
        run(pip.arg("--target").arg(folder.join("packages")))
    })
    .map(|folder| folder.join("packages"))
}

/// Python, to run scripts.
///
/// # Errors
/// When it is missing and cannot be installed.
pub(crate) fn python() -> Result<Command> {
    Ok(Command::new(program("python3", "python3-pip")?))
}
