//! What must run in a Worker, on wasm32-unknown-unknown: no runtime, no clock, no operating system.

use std::path::Path;

use crate::run::{Done, cargo, command, output, run};

/// A target without an operating system.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// The core, its meaning on the wire, and Redis through the REST interface of Upstash.
const PACKAGES: [&[&str]; 3] = [
    &["-p", "tollgate-core"],
    &["-p", "tollgate-http"],
    &["-p", "tollgate-redis", "--no-default-features", "--features", "upstash"],
];

/// Builds the packages for wasm32.
///
/// # Errors
/// When the build fails, or this toolchain cannot build for the target.
pub(crate) fn wasm() -> Done {
    if let Some(why) = missing() {
        return Err(why);
    }
    for package in PACKAGES {
        let mut build = cargo(&["build", "--target", TARGET, "--release", "--locked"]);
        build.args(package).env("RUSTFLAGS", "-D warnings");
        run(build)?;
    }
    Ok(())
}

/// Why this toolchain cannot build for the target, and what to do; `None` if it can.
pub(crate) fn missing() -> Option<String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let library = output(command(&rustc, &["--print", "target-libdir", "--target", TARGET]));
    let is_there = library.is_ok_and(|path| Path::new(path.trim()).is_dir());
    let how = format!("this toolchain has no {TARGET}; with rustup: rustup target add {TARGET}");
    (!is_there).then_some(how)
}
