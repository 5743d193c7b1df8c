//! Tests of the tests: cargo-mutants changes the code in one place at a time, and reports the
//! changes that no test notices. It takes hours: run a shard of it.

use std::path::PathBuf;

use crate::run::{TaskResult, command, root, run};
use crate::tools::MUTANTS;

/// The code that decides: algorithms, rounds, races, outages.
const PATHS: [&str; 6] = [
    "crates/tollgate-core/src/algorithm/**/*.rs",
    "crates/tollgate-core/src/combine/**/*.rs",
    "crates/tollgate-core/src/limiter/failure/**/*.rs",
    "crates/tollgate-core/src/store/cas/**/*.rs",
    "crates/tollgate-core/src/store/combine/**/*.rs",
    "crates/tollgate-core/src/store/plan.rs",
];

/// The packages whose tests must notice a change; none of them starts a server.
const TESTS: [&str; 3] = ["tollgate-core", "tollgate", "tollgate-testkit"];

/// `mutants [--OPTION=VALUE] [PATHS]`: options of cargo-mutants, such as `--shard=0/8`.
///
/// # Errors
/// When the tool cannot be built, the tests fail without a change, or a change passes all tests.
pub(crate) fn mutants(arguments: &[&str]) -> TaskResult {
    let program = MUTANTS.built().map_err(|error| error.to_string())?;
    let (options, paths): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|argument| argument.starts_with("--"));
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let output = root().join(target.map_or_else(|| PathBuf::from("target"), PathBuf::from));
    let output = output.join("mutants");
    let mut mutants = command(&program.to_string_lossy(), &["mutants", "-j1", "--no-shuffle"]);
    for path in if paths.is_empty() { &PATHS[..] } else { &paths } {
        mutants.args(["--file", path]);
    }
    for package in TESTS {
        mutants.args(["--test-package", package]);
    }
    mutants.arg("--output").arg(&output).args(options);
    // The copy of the sources has another path; dependencies are built once for all runs.
    mutants.env("CARGO_TARGET_DIR", output.join("target"));
    run(mutants)
}
