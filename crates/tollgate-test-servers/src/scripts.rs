//! Third-party clients: packages of Python and node, pinned by lock files with hashes and installed
//! once per user, outside of any checkout.

use std::path::PathBuf;
use std::process::Command;

use super::error::Result;
use super::install::{npm, pip};

/// Python with packages.
#[derive(Clone, Debug)]
pub struct Python {
    packages: PathBuf,
}

impl Python {
    /// With the packages of a file of requirements, every one of them with its hash.
    ///
    /// # Errors
    /// When Python cannot be installed, or a package cannot be downloaded or has another hash.
    pub fn with(name: &str, requirements: &str) -> Result<Self> {
        Ok(Self { packages: pip::installed(name, requirements)? })
    }

    /// Python, for a script that imports the packages.
    ///
    /// # Errors
    /// When Python is missing and cannot be installed.
    pub fn command(&self) -> Result<Command> {
        let mut command = pip::python()?;
        command.env("PYTHONPATH", &self.packages).env("PYTHONDONTWRITEBYTECODE", "1");
        Ok(command)
    }

    /// Runs a program that one of the packages brings.
    ///
    /// # Errors
    /// As [`Self::command`].
    pub fn program(&self, name: &str) -> Result<Command> {
        let mut command = self.command()?;
        command.arg(self.packages.join("bin").join(name));
        Ok(command)
    }
}

/// node with packages.
#[derive(Clone, Debug)]
pub struct NodeJs {
    packages: PathBuf,
}

impl NodeJs {
    /// With the packages of a lock file, every one of them with its hash.
    ///
    /// # Errors
    /// When node or npm cannot be installed, or a package cannot be downloaded or has another hash.
    pub fn with(name: &str, package: &str, lock: &str) -> Result<Self> {
        Ok(Self { packages: npm::installed(name, package, lock)? })
    }

    /// node, for a script that loads the packages by `require`.
    ///
    /// # Errors
    /// When node is missing and cannot be installed.
    pub fn command(&self) -> Result<Command> {
        let mut command = npm::node()?;
        command.env("NODE_PATH", self.packages.join("node_modules"));
        Ok(command)
    }
}
