//! Programs of another release of Debian than this machine's, with the libraries they were built for.
//!
//! apt resolves and verifies the packages as for a machine that has none, in a folder of its own:
//! nothing is installed, and nobody has to be root. What was downloaded is unpacked into the cache,
//! and runs through the dynamic loader that came with it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::cached;
use super::{apt, find, run};
use crate::error::{Error, Result};
use crate::process::Launch;

/// What Debian signs its packages with; other distributions have a package for it.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// For machines that use no mirror of Debian themselves.
const ARCHIVE: &str = "http://deb.debian.org/debian/";

/// A program in a package of a release.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packaged {
    pub(crate) release: &'static str,
    pub(crate) package: &'static str,
    /// Its name in `/usr/bin`.
    pub(crate) program: &'static str,
}

impl Packaged {
    /// How the program is run, downloaded if it is not there.
    ///
    /// # Errors
    /// When there is no apt, or it cannot download or verify the packages.
    pub(crate) fn launch(&self) -> Result<Launch> {
        let name = format!("{}-{}", self.package, self.release);
        let folder = cached(&name, |folder| self.fetch(folder))?;
        self.launch_in(&folder)
    }

    fn fetch(&self, folder: &Path) -> Result<()> {
        let apt = Apt::new(folder.join("apt"), self.release)?;
        let packages = apt.download(self.package)?;
        let unpack = program_of("dpkg-deb")?;
        for package in packages {
            run(Command::new(&unpack).arg("-x").arg(package).arg(folder))?;
        }
        Ok(fs::remove_dir_all(&apt.folder)?)
    }

    fn launch_in(&self, folder: &Path) -> Result<Launch> {
        let architecture = std::env::consts::ARCH;
        let loader = match architecture {
            "x86_64" => "ld-linux-x86-64.so.2",
            "aarch64" => "ld-linux-aarch64.so.1",
            other => return Err(Error::new(format!("no loader of Debian is known for {other}"))),
        };
        let libraries = folder.join(format!("usr/lib/{architecture}-linux-gnu"));
        let launch = Launch::new(libraries.join(loader));
        // Some programs are several: they go by the name that they are called.
        let launch = launch.args(["--argv0", self.program, "--library-path"]).arg(libraries);
        Ok(launch.arg(folder.join("usr/bin").join(self.program)))
    }
}

/// apt, with one source and with nothing installed.
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

    /// Downloads a package with all that it depends on: the files.
    fn download(&self, package: &str) -> Result<Vec<PathBuf>> {
        run(self.command()?.arg("update"))?;
        let install = ["install", "--yes", "--no-install-recommends", "--download-only", package];
        run(self.command()?.args(install))?;
        let found = fs::read_dir(self.folder.join("cache/archives"))?;
        let found = found.flatten().map(|entry| entry.path());
        Ok(found.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect())
    }

    fn command(&self) -> Result<Command> {
        let mut command = Command::new(program_of("apt-get")?);
        let places = [
            ("Dir::State", ""),
            ("Dir::State::lists", "lists"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", "cache"),
            ("Dir::Etc::sourcelist", "sources.list"),
        ];
        for (setting, place) in places {
            let mut option = OsString::from(format!("{setting}="));
            option.push(self.folder.join(place));
            command.arg("-o").arg(option);
        }
        let settings = [
            "Dir::Etc::sourceparts=/dev/null",
            "Dir::Etc::preferences=/dev/null",
            "Dir::Etc::preferencesparts=/dev/null",
            "Acquire::Languages=none",
            "Acquire::Retries=3",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
            // The folder is nobody else's, and the user that apt becomes to download may not enter it.
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
    let asked = Command::new("apt-get").args(targets).arg("Label: Debian").output();
    let said = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let first = said.ok().and_then(|said| said.lines().next().map(str::to_owned));
    first.unwrap_or_else(|| ARCHIVE.to_owned())
}

fn program_of(name: &str) -> Result<PathBuf> {
    find(name).ok_or_else(|| Error::new(format!("there is no {name} on this machine")))
}
