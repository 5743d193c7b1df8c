//! The crates for Workers, built for wasm32: no runtime, no clock, no operating system. Then the
//! Workers of the workspace, with link-time optimisation and their JavaScript.

use tollgate_test_servers::install::WasmCompiler;
use tollgate_test_servers::workerd;

use crate::metadata::packages;
use crate::run::{TaskResult, cargo, run};

/// A target without an operating system.
pub(crate) const TARGET: &str = WasmCompiler::TARGET;

/// The crates, each with the features that it has on wasm32.
const CRATES: [(&str, &str); 6] = [
    ("tollgate-core", ""),
    ("tollgate-http", ""),
    ("tollgate-redis", "upstash"),
    ("tollgate-service", ""),
    ("tollgate-testkit", ""),
    ("tollgate-worker", "api,upstash"),
];

/// Builds the crates and the Workers.
///
/// # Errors
/// When a crate does not compile, or no compiler for the target can be installed.
pub(crate) fn wasm() -> TaskResult {
    build(&WasmCompiler::installed().map_err(|error| error.to_string())?)
}

/// As [`wasm`] on a machine whose rustup cannot add the target.
///
/// # Errors
/// As [`wasm`].
pub(crate) fn wasm_with_debian() -> TaskResult {
    build(&WasmCompiler::debian().map_err(|error| error.to_string())?)
}

fn build(compiler: &WasmCompiler) -> TaskResult {
    for (name, features) in CRATES {
        // The profile of Workers, whose builds share the dependencies.
        let mut build = cargo(&["build", "--profile", "worker", "--locked", "-p", name]);
        build.args(["--no-default-features", "--features", features]);
        compiler.configure(&mut build);
        // A foreign compiler may have new warnings.
        if !compiler.is_foreign() {
            build.env("RUSTFLAGS", "-D warnings");
        }
        run(build)?;
    }
    for worker in packages()?.iter().filter(|package| package.is_worker) {
        let folder = workerd::build_with(compiler, &worker.name);
        println!("{}: {}", worker.name, folder.map_err(|error| error.to_string())?.display());
    }
    Ok(())
}
