//! Programs in Rust, published as a crate or our own: built once, with the versions of their lock
//! file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cache::{cached, named_after};
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
            let mut arguments = vec![self.name, "--version", self.version, "--bin", self.program];
            if let Some(features) = self.features {
                arguments.extend(["--no-default-features", "--features", features]);
            }
            install(folder, &arguments)
        })?;
        Ok(folder.join("bin").join(self.program))
    }
}

/// A small program of ours whose dependencies do not belong in the workspace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnProgram {
    /// The name of the package and of the program.
    pub(crate) name: &'static str,
    pub(crate) manifest: &'static str,
    pub(crate) lock: &'static str,
    /// The text of `main.rs`, beside the manifest.
    pub(crate) main: &'static str,
}

impl OwnProgram {
    /// The path of the program; as [`Crate::built`].
    ///
    /// # Errors
    /// When a dependency cannot be downloaded, or it does not build.
    pub(crate) fn built(&self) -> Result<PathBuf> {
        let Self { name, manifest, lock, main } = *self;
        let folder = cached(&named_after(name, [manifest, lock, main]), |folder| {
            fs::write(folder.join("Cargo.toml"), manifest)?;
            fs::write(folder.join("Cargo.lock"), lock)?;
            fs::write(folder.join("main.rs"), main)?;
            install(folder, &["--path", "."])
        })?;
        Ok(folder.join("bin").join(name))
    }
}

/// Runs `cargo install` in a folder, into its `bin`.
fn install(folder: &Path, arguments: &[&str]) -> Result<()> {
    let target = folder.join("target");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut install = Command::new(cargo);
    install.arg("install").args(arguments).args(["--locked", "--root"]).arg(folder);
    install.env("CARGO_TARGET_DIR", &target).envs(PROFILE);
    install.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    run(install.current_dir(folder).stderr(Stdio::inherit()))?;
    Ok(fs::remove_dir_all(target)?)
}
