//! Installs packages with apt-get, where that is allowed.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::find;
use crate::error::{Error, Result};
use crate::root;

/// Seconds to wait for others who use the package manager.
const PATIENCE: &str = "DPkg::Lock::Timeout=600";

/// Installs packages, then looks for what they should have brought.
pub(super) fn install(packages: &[&str], look: impl Fn() -> Option<PathBuf>) -> Result<PathBuf> {
    // Test processes start together and miss the same package.
    let _turn = root::lock("apt.lock")?;
    if let Some(found) = look() {
        return Ok(found);
    }
    let install = ["install", "--yes", "--no-install-recommends"];
    let attempt = || apt_get(&[&install, packages].concat());
    // The lists may be missing or old; usually they are neither, and fetching them takes long.
    let installed = attempt().or_else(|_| apt_get(&["update"]).and_then(|()| attempt()));
    let packages = packages.join(" ");
    installed.map_err(|error| {
        error.during(format!("tests need {packages}: install that and run them again"))
    })?;
    look().ok_or_else(|| Error::new(format!("{packages} did not bring what tests need")))
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let Some(apt_get) = find("apt-get") else {
        return Err(Error::new("there is no apt-get on this machine"));
    };
    let mut command = if root::user_id()? == 0 {
        Command::new("env")
    } else {
        let sudo = find("sudo").ok_or_else(|| Error::new("neither root nor sudo"))?;
        let mut command = Command::new(sudo);
        command.args(["-n", "env"]);
        command
    };
    // An installed server must not start by itself: there is nothing to serve.
    command.args(["DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "LC_ALL=C"]);
    command.arg(apt_get).args(["-o", PATIENCE]).args(arguments).stdin(Stdio::null());
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!("apt-get {}: {}", arguments.join(" "), said.trim())))
}
