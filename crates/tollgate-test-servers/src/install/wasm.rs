//! The compiler for Workers: wasm32-unknown-unknown, a target without an operating system.
//!
//! A toolchain without the target gets it from rustup. If rustup cannot, Debian's compiler is used,
//! with Debian's linker.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::cached;
use super::debian::Packaged;
use super::{make_executable, run};
use crate::error::{AtPath, Result};

/// The compiler of Debian's next release, which is newer than the workspace requires.
const DEBIAN: Packaged = Packaged {
    release: "forky",
    packages: &["rustc", "libstd-rust-dev-wasm32", "lld"],
    program: "rustc",
};
const LINKER: Packaged = Packaged { program: "lld", ..DEBIAN };

/// A compiler for [`WasmCompiler::TARGET`].
#[derive(Clone, Debug)]
pub struct WasmCompiler {
    /// `None` is the compiler of this toolchain.
    rustc: Option<PathBuf>,
}

impl WasmCompiler {
    /// The target.
    pub const TARGET: &str = "wasm32-unknown-unknown";

    /// The compiler of this toolchain if it has the target or rustup can add it, else Debian's.
    ///
    /// # Errors
    /// When neither can be installed.
    pub fn installed() -> Result<Self> {
        let add = || run(Command::new("rustup").args(["target", "add", Self::TARGET])).is_ok();
        match has_target() || (add() && has_target()) {
            true => Ok(Self { rustc: None }),
            false => Self::debian(),
        }
    }

    /// Debian's compiler, as on a machine whose rustup cannot add the target.
    ///
    /// # Errors
    /// When it cannot be downloaded.
    pub fn debian() -> Result<Self> {
        let unpacked = DEBIAN.unpacked()?;
        let folder = cached(&format!("{}-scripts", DEBIAN.cache_name()), |folder| {
            let sysroot = format!("--sysroot '{}'", unpacked.join("usr").display());
            write_script(&folder.join("rustc"), &DEBIAN.command_line(&unpacked)?, &sysroot)?;
            // The name by which rustc looks for it, on the path too.
            write_script(&folder.join("rust-lld"), &LINKER.command_line(&unpacked)?, "")
        })?;
        Ok(Self { rustc: Some(folder.join("rustc")) })
    }

    /// Whether it is another compiler than the one of this toolchain. It may have new warnings.
    #[must_use]
    pub const fn is_foreign(&self) -> bool {
        self.rustc.is_some()
    }

    /// Makes a command of cargo use this compiler, for the target.
    pub fn configure(&self, cargo: &mut Command) {
        cargo.args(["--target", Self::TARGET]);
        if let Some(rustc) = &self.rustc {
            cargo.env("RUSTC", rustc);
        }
    }
}

/// Whether the toolchain has the standard library for the target.
fn has_target() -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut print = Command::new(rustc);
    print.args(["--print", "target-libdir", "--target", WasmCompiler::TARGET]);
    let printed = print.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    printed.is_ok_and(|path| Path::new(path.trim()).is_dir())
}

/// A script that runs a program with the libraries of its release: cargo wants one program.
fn write_script(path: &Path, command_line: &[OsString], more: &str) -> Result<()> {
    let words: Vec<String> =
        command_line.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let words = words.join(" ");
    let path_here = "export PATH=\"$(dirname \"$0\"):$PATH\"";
    let script = format!("#!/bin/sh\n{path_here}\nexec {words} {more} \"$@\"\n");
    fs::write(path, script).at(path)?;
    make_executable(path)
}
