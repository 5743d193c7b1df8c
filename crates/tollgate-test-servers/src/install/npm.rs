//! Packages of npm, pinned by a lock file with hashes: clients for node, and DynamoDBLocal.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::cache::{cached, named_after};
use super::{program, run};
use crate::error::Result;

/// The folder in which a lock file is installed.
///
/// # Errors
/// When node or npm cannot be installed, or a package cannot be downloaded or has another hash.
pub(crate) fn installed(name: &str, package: &str, lock: &str) -> Result<PathBuf> {
    cached(&named_after(name, &[package, lock]), |folder| {
        fs::write(folder.join("package.json"), package)?;
        fs::write(folder.join("package-lock.json"), lock)?;
        let mut npm = Command::new(program("npm", "npm")?);
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
        run(npm.current_dir(folder))
    })
}

/// node, to run scripts.
///
/// # Errors
/// When it is missing and cannot be installed.
pub(crate) fn node() -> Result<Command> {
    Ok(Command::new(program("node", "nodejs")?))
}
