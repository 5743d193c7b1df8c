//! Programs of another release of Debian than this machine's, with the libraries they were built
//! for.
//!
//! apt resolves and verifies the packages as for an empty machine, in a folder of its own: nothing
//! is installed, and no root account is needed. The packages are unpacked into the cache, and their
//! programs run through the dynamic loader of that release.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::cached;
use super::{apt, find, run};
use crate::error::{Error, Result};
use crate::process::server_command;

/// The keys of Debian's archive; other distributions have a package with them.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// For machines that use no mirror of Debian themselves.
const ARCHIVE: &str = "http://deb.debian.org/debian/";

/// A program in the packages of a release of Debian.
#[derive(Clone, Copy, Debug)]
pub struct Packaged {
    /// The name of the release, such as `trixie`.
    pub release: &'static str,
    /// The package of the program, then other packages that it needs; dependencies are included.
    pub packages: &'static [&'static str],
    /// Its name in `/usr/bin`.
    pub program: &'static str,
}

impl Packaged {
    /// How to run the program; its packages are downloaded first if the cache does not have them.
    ///
    /// # Errors
    /// When there is no apt, or it cannot download or verify the packages.
    pub(crate) fn command(&self) -> Result<Command> {
        let [loader, arguments @ ..] = self.command_line(&self.unpacked()?)?;
        let mut command = server_command(loader)?;
        command.args(arguments);
        Ok(command)
    }

    /// The folder with the unpacked packages.
    ///
    /// # Errors
    /// When there is no apt, or it cannot download or verify the packages.
    pub fn unpacked(&self) -> Result<PathBuf> {
        cached(&self.cache_name(), |folder| self.fetch(folder))
    }

    /// The name of that folder in the cache.
    pub(super) fn cache_name(&self) -> String {
        format!("{}-{}", self.packages.join("-"), self.release)
    }

    fn fetch(&self, folder: &Path) -> Result<()> {
        let apt = Apt::new(folder.join("apt"), self.release)?;
        let packages = apt.download(self.packages)?;
        let unpack = program_of("dpkg-deb")?;
        for package in packages {
            run(Command::new(&unpack).arg("-x").arg(package).arg(folder))?;
        }
        Ok(fs::remove_dir_all(&apt.folder)?)
    }

    /// The loader of the release, and the arguments with which it runs the program in `folder`.
    ///
    /// # Errors
    /// When the processor is neither an x86-64 nor an ARM64.
    pub fn command_line(&self, folder: &Path) -> Result<[OsString; 6]> {
        let architecture = std::env::consts::ARCH;
        let loader = match architecture {
            "x86_64" => "ld-linux-x86-64.so.2",
            "aarch64" => "ld-linux-aarch64.so.1",
            other => return Err(Error::new(format!("no loader of Debian is known for {other}"))),
        };
        let libraries = folder.join(format!("usr/lib/{architecture}-linux-gnu"));
        Ok([
            libraries.join(loader).into(),
            // redis-server behaves by the name that it is called by.
            "--argv0".into(),
            self.program.into(),
            "--library-path".into(),
            libraries.into(),
            folder.join("usr/bin").join(self.program).into(),
        ])
    }
}

/// apt with one source and no installed packages.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(folder: PathBuf, release: &str) -> Result<Self> {
        let keyring = || Path::new(KEYRING).is_file().then(|| PathBuf::from(KEYRING));
        if keyring().is_none() {
            apt::install(&["debian-archive-keyring"], keyring)?;
        }
        for part in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::write(folder.join("status"), "")?;
        let source = format!("deb [signed-by={KEYRING}] {} {release} main\n", mirror());
        fs::write(folder.join("sources.list"), source)?;
        Ok(Self { folder })
    }

    /// Downloads packages with their dependencies, and returns the files.
    fn download(&self, packages: &[&str]) -> Result<Vec<PathBuf>> {
        run(self.command()?.arg("update"))?;
        let install = ["install", "--yes", "--no-install-recommends", "--download-only"];
        run(self.command()?.args(install).args(packages))?;
        let found = fs::read_dir(self.folder.join("cache/archives"))?;
        let found = found.flatten().map(|entry| entry.path());
        Ok(found.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect())
    }

    fn command(&self) -> Result<Command> {
        let mut command = Command::new(program_of("apt-get")?);
        let paths = [
            ("Dir::State", ""),
            ("Dir::State::lists", "lists"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", "cache"),
            ("Dir::Etc::sourcelist", "sources.list"),
        ];
        for (setting, path) in paths {
            let mut option = OsString::from(format!("{setting}="));
            option.push(self.folder.join(path));
            command.arg("-o").arg(option);
        }
        let settings = [
            "Dir::Etc::sourceparts=/dev/null",
            "Dir::Etc::preferences=/dev/null",
            "Dir::Etc::preferencesparts=/dev/null",
            "Acquire::Languages=none",
            "Acquire::Retries=3",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
            // No other process uses the folder, and the user `_apt` may not enter it.
            "Debug::NoLocking=1",
            "APT::Sandbox::User=",
        ];
        for setting in settings {
            command.args(["-o", setting]);
        }
        command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
        Ok(command)
    }
}

/// The mirror of Debian that this machine uses.
fn mirror() -> String {
    let targets = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"];
    let output = Command::new("apt-get").args(targets).arg("Label: Debian").output();
    let stdout = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let first = stdout.ok().and_then(|stdout| stdout.lines().next().map(str::to_owned));
    first.unwrap_or_else(|| ARCHIVE.to_owned())
}

fn program_of(name: &str) -> Result<PathBuf> {
    find(name).ok_or_else(|| Error::new(format!("this machine has no {name}")))
}
