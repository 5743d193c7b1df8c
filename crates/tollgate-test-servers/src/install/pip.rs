//! Packages of Python that tests run, pinned by a file of requirements with hashes.

use std::path::PathBuf;
use std::process::Command;

use super::cache::{cached, named_after};
use super::{program, run};
use crate::error::Result;

/// Python with packages, installed once per user, outside of any checkout.
#[derive(Clone, Debug)]
pub struct Python {
    packages: PathBuf,
}

impl Python {
    /// With the packages of a file of requirements, every one of them with its hash. Only wheels:
    /// the installation runs no code of a package.
    ///
    /// # Errors
    /// When Python or pip cannot be installed, or a package cannot be downloaded or has another
    /// hash.
    pub fn with(name: &str, requirements: &str) -> Result<Self> {
        // Compiled modules fit one version of Python.
        let version = python()?.arg("--version").output()?;
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        let folder = cached(&named_after(name, [requirements, &version]), |folder| {
            let list = folder.join("requirements.txt");
            std::fs::write(&list, requirements)?;
            let mut pip = python()?;
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
            pip.args(["--no-deps", "--require-hashes", "--only-binary=:all:", "--requirement"]);
            run(pip.arg(&list).arg("--target").arg(folder.join("packages")))
        })?;
        Ok(Self { packages: folder.join("packages") })
    }

    /// Python, for a script that imports the packages.
    ///
    /// # Errors
    /// When Python is missing and cannot be installed.
    pub fn command(&self) -> Result<Command> {
        let mut command = python()?;
        command.env("PYTHONPATH", &self.packages).env("PYTHONDONTWRITEBYTECODE", "1");
        Ok(command)
    }

    /// Runs a program of one of the packages.
    ///
    /// # Errors
    /// As [`Self::command`].
    pub fn program(&self, name: &str) -> Result<Command> {
        let mut command = self.command()?;
        command.arg(self.packages.join("bin").join(name));
        Ok(command)
    }
}

/// Python without packages.
pub(super) fn python() -> Result<Command> {
    Ok(Command::new(program("python3", "python3-pip")?))
}
