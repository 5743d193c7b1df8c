//! Servers that come as a crate: built once, from the versions of their own lock file.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::cache::cached;
use super::run;
use crate::error::Result;

/// A crate with a program, pinned.
pub(crate) struct Crate {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// The program that is wanted.
    pub(crate) program: &'static str,
    /// What is built of it, if not the default; separated by commas.
    pub(crate) features: Option<&'static str>,
}

/// Whoever builds this inside of another build must not pass on how that one is built. The program
/// serves tests: it has to be there soon rather than be fast.
const PROFILE: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "false"),
];

impl Crate {
    /// The program, built if it is not there: that takes minutes, and cargo tells how far it is.
    ///
    /// # Errors
    /// When it cannot be downloaded or does not build.
    pub(crate) fn built(&self) -> Result<PathBuf> {
        let folder = cached(&format!("{}-{}", self.name, self.version), |folder| {
            let target = folder.join("target");
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut build = Command::new(cargo);
            build.args(["install", self.name, "--version", self.version, "--locked"]);
            build.args(["--bin", self.program, "--root"]).arg(folder);
            if let Some(features) = self.features {
                build.args(["--no-default-features", "--features", features]);
            }
            build.env("CARGO_TARGET_DIR", &target).envs(PROFILE);
            build.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
            run(build.current_dir(folder).stderr(Stdio::inherit()))?;
            Ok(fs::remove_dir_all(target)?)
        })?;
        Ok(folder.join("bin").join(self.program))
    }
}
