//! Programs that are published as a crate: built once, with the versions of their own lock file.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::cache::cached;
use super::run;
use crate::error::Result;

/// A crate with a program, pinned.
#[derive(Clone, Copy, Debug)]
pub struct Crate {
    /// The name of the crate.
    pub name: &'static str,
    /// The exact version.
    pub version: &'static str,
    /// The program of the crate that is built.
    pub program: &'static str,
    /// The features to build, separated by commas; `None` for the default features.
    pub features: Option<&'static str>,
}

/// The build is short rather than the program fast. It ignores the settings of an outer build.
const PROFILE: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "false"),
];

impl Crate {
    /// The path of the program. A build takes minutes, and cargo prints its progress.
    ///
    /// # Errors
    /// When the crate cannot be downloaded or does not build.
    pub fn built(&self) -> Result<PathBuf> {
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
