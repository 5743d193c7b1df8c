//! The core on wasm32-unknown-unknown: no runtime, no clock, no operating system.

use std::path::Path;

use crate::run::{Done, cargo, command, output, run};

const TARGET: &str = "wasm32-unknown-unknown";

/// Builds the core for wasm32.
///
/// # Errors
/// When the build fails, or the toolchain has no standard library for the target.
pub(crate) fn wasm() -> Done {
    if !is_installed() {
        return Err(how_to_install());
    }
    build()
}

/// Builds the core for wasm32 if this toolchain can, and says so if it cannot.
pub(crate) fn wasm_if_possible() -> Done {
    if is_installed() {
        return build();
    }
    println!("skipped: {}", how_to_install());
    Ok(())
}

fn build() -> Done {
    let arguments = ["build", "-p", "tollgate-core", "--target", TARGET, "--release", "--locked"];
    let mut build = cargo(&arguments);
    build.env("RUSTFLAGS", "-D warnings");
    run(build)
}

/// Whether the compiler has a standard library for the target.
fn is_installed() -> bool {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let library = output(command(&rustc, &["--print", "target-libdir", "--target", TARGET]));
    library.is_ok_and(|path| Path::new(path.trim()).is_dir())
}

fn how_to_install() -> String {
    format!("this toolchain has no {TARGET}; with rustup: rustup target add {TARGET}")
}
