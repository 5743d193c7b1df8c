//! The crates for Workers, built for wasm32: no runtime, no clock, no operating system.
//!
//! A toolchain without the target gets it from rustup. If rustup cannot, Debian's compiler is used.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tollgate_test_servers::install::{Packaged, cached};
use tollgate_test_servers::{Error, Result};

use crate::metadata::packages;
use crate::run::{TaskResult, cargo, command, output, run, succeeds};

/// A target without an operating system.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// The crates, each with the features that it has on wasm32.
const CRATES: [(&str, &str); 4] = [
    ("tollgate-core", ""),
    ("tollgate-http", ""),
    ("tollgate-redis", "upstash"),
    ("tollgate-service", ""),
];

/// The compiler of Debian's next release, which is newer than the workspace requires.
const DEBIAN: Packaged =
    Packaged { release: "forky", packages: &["rustc", "libstd-rust-dev-wasm32"], program: "rustc" };

/// Builds the crates.
///
/// # Errors
/// When a crate does not compile, or no compiler for the target can be installed.
pub(crate) fn wasm() -> TaskResult {
    match has_target() || (succeeds(command("rustup", &["target", "add", TARGET])) && has_target())
    {
        true => build(None),
        false => wasm_with_debian(),
    }
}

/// As [`wasm`] on a machine whose rustup cannot add the target.
///
/// # Errors
/// As [`wasm`].
pub(crate) fn wasm_with_debian() -> TaskResult {
    println!("{TARGET}: with the compiler of Debian {}", DEBIAN.release);
    build(Some(&debian().map_err(|error| error.to_string())?))
}

fn build(rustc: Option<&Path>) -> TaskResult {
    let members = packages()?;
    for (name, features) in CRATES {
        // This list may be ahead of the workspace.
        if !members.iter().any(|member| member.name == name) {
            println!("{name} is no member yet");
            continue;
        }
        let mut build = cargo(&["build", "--target", TARGET, "--release", "--locked"]);
        build.args(["-p", name, "--no-default-features", "--features", features]);
        match rustc {
            // A newer compiler may have new warnings.
            Some(rustc) => build.env("RUSTC", rustc),
            None => build.env("RUSTFLAGS", "-D warnings"),
        };
        run(build)?;
    }
    Ok(())
}

/// Whether the toolchain has the standard library for the target.
fn has_target() -> bool {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let folder = output(command(&rustc, &["--print", "target-libdir", "--target", TARGET]));
    folder.is_ok_and(|path| Path::new(path.trim()).is_dir())
}

/// A script that runs Debian's compiler with its own libraries: cargo wants one program.
fn debian() -> Result<PathBuf> {
    let unpacked = DEBIAN.unpacked()?;
    let folder = cached(&format!("rustc-wasm32-{}", DEBIAN.release), |folder| {
        let mut script = "#!/bin/sh\nexec".to_owned();
        for word in DEBIAN.command_line(&unpacked)? {
            write!(script, " '{}'", word.display())
                .map_err(|error| Error::new(error.to_string()))?;
        }
        let sysroot = unpacked.join("usr");
        script.push_str(&format!(" --sysroot '{}' \"$@\"\n", sysroot.display()));
        let path = folder.join("rustc");
        fs::write(&path, script)?;
        Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
    })?;
    Ok(folder.join("rustc"))
}
