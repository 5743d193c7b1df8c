//! Installs packages with apt-get, where that is allowed.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::error::{Error, Result};
use crate::root;

/// How long apt-get waits for another process that uses the package manager.
const LOCK_TIMEOUT: &str = "DPkg::Lock::Timeout=600";

/// Installs packages, unless `find` succeeds without them, and returns what `find` finds.
pub(super) fn install(packages: &[&str], find: impl Fn() -> Option<PathBuf>) -> Result<PathBuf> {
    // Test processes start together and need the same package.
    let _locked = root::lock("apt.lock")?;
    if let Some(found) = find() {
        return Ok(found);
    }
    let install = ["install", "--yes", "--no-install-recommends"];
    let attempt = || apt_get(&[&install, packages].concat());
    // The package lists may be missing or old. Fetching them takes long, so it comes second.
    let installed = attempt().or_else(|_| apt_get(&["update"]).and_then(|()| attempt()));
    let packages = packages.join(" ");
    installed.map_err(|error| {
        error.during(format!("tests need {packages}: install that and run them again"))
    })?;
    find().ok_or_else(|| Error::new(format!("{packages} do not contain what tests need")))
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let Some(apt_get) = super::find("apt-get") else {
        return Err(Error::new("this machine has no apt-get"));
    };
    let mut command = if root::user_id()? == 0 {
        Command::new("env")
    } else {
        let sudo = super::find("sudo").ok_or_else(|| Error::new("neither root nor sudo"))?;
        let mut command = Command::new(sudo);
        command.args(["-n", "env"]);
        command
    };
    // RUNLEVEL=1: the package of a server must not start it.
    command.args(["DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "LC_ALL=C"]);
    command.arg(apt_get).args(["-o", LOCK_TIMEOUT]).args(arguments).stdin(Stdio::null());
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!("apt-get {}: {}", arguments.join(" "), stderr.trim())))
}
