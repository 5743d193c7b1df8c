//! Packages of npm, pinned by a lock file with hashes: clients for node, and DynamoDBLocal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::{cached, named_after};
use super::{program, run};
use crate::error::Result;

/// node with packages, installed once per user, outside of any checkout.
#[derive(Clone, Debug)]
pub struct NodeJs {
    folder: PathBuf,
}

impl NodeJs {
    /// With the packages of a lock file, every one of them with its hash.
    ///
    /// # Errors
    /// When npm cannot be installed, or a package cannot be downloaded or has another hash.
    pub fn with(name: &str, package: &str, lock: &str) -> Result<Self> {
        let folder = cached(&named_after(name, [package, lock]), |folder| {
            fs::write(folder.join("package.json"), package)?;
            fs::write(folder.join("package-lock.json"), lock)?;
            let mut npm = Command::new(program("npm", "npm")?);
            npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
            run(npm.current_dir(folder))
        })?;
        Ok(Self { folder })
    }

    /// The folder of the packages.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// node, for a script that loads the packages by `require`.
    ///
    /// # Errors
    /// When node is missing and cannot be installed.
    pub fn command(&self) -> Result<Command> {
        let mut command = Command::new(program("node", "nodejs")?);
        command.env("NODE_PATH", self.folder.join("node_modules"));
        Ok(command)
    }
}
