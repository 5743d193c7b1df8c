//! The binary of a release: static with musl where the toolchain has or can get that target, else
//! for the C library of this machine.

use std::path::{Path, PathBuf};

use tollgate_test_servers::program;

use crate::run::{cargo, command, output, root, run, succeeds, target};

/// The C compiler for musl, and its package in Debian.
const MUSL_COMPILER: (&str, &str) = ("musl-gcc", "musl-tools");

/// The target of a release.
///
/// # Errors
/// When the compiler does not say for which machine it runs.
pub(super) fn target_triple() -> Result<String, String> {
    let version = output(command("rustc", &["--version", "--verbose"]))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("rustc names no host")?.to_owned();
    let musl = host.replace("-gnu", "-musl");
    let add = || succeeds(command("rustup", &["target", "add", &musl]));
    Ok(if has_target(&musl) || (add() && has_target(&musl)) { musl } else { host })
}

/// Whether the toolchain has the standard library for a target.
fn has_target(triple: &str) -> bool {
    let printed = output(command("rustc", &["--print", "target-libdir", "--target", triple]));
    printed.is_ok_and(|path| Path::new(path.trim()).is_dir())
}

/// Builds the binary, without the paths of this machine in it.
///
/// # Errors
/// When it does not compile, or the C compiler for musl cannot be installed.
pub(super) fn binary(triple: &str) -> Result<PathBuf, String> {
    let replaced = replaced_paths()?;
    let flags: Vec<String> =
        replaced.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
    let c_flags: Vec<String> =
        replaced.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect();
    let mut build = cargo(&["build", "--profile", "dist", "--locked", "-p", super::PACKAGE]);
    build.args(["--target", triple]).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    let variable = |name: &str| format!("{name}_{}", triple.replace('-', "_"));
    build.env(variable("CFLAGS"), c_flags.join(" "));
    if triple.ends_with("-musl") {
        let (name, package) = MUSL_COMPILER;
        let compiler = program(name, package).map_err(|error| error.to_string())?;
        build.env(variable("CC"), compiler);
    }
    run(build)?;
    Ok(target().join(triple).join("dist/tollgate"))
}

/// The folders of this machine, and what stands for them in the binary.
fn replaced_paths() -> Result<[(String, &'static str); 3], String> {
    let cargo_home = std::env::var("CARGO_HOME").or_else(|_| {
        std::env::var("HOME").map(|home| format!("{home}/.cargo")).map_err(|_| "HOME is not set")
    })?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    Ok([
        // The last prefix that fits is replaced, and the target may be in the root.
        (text(root()), "/tollgate"),
        (text(&target()), "/target"),
        (format!("{cargo_home}/registry/src"), "/cargo"),
    ])
}
