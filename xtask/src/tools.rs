//! Tools beyond the toolchain, pinned and built once per user, outside of the checkout.

use tollgate_test_servers::install::Crate;

use crate::run::{TaskResult, command, run};

/// Licences, sources and duplicates of dependencies: `deny.toml`.
pub(crate) const DENY: Crate =
    Crate { name: "cargo-deny", version: "0.20.2", program: "cargo-deny", features: None };

/// Tests of the tests: changes the code, and reports changes that no test notices.
pub(crate) const MUTANTS: Crate =
    Crate { name: "cargo-mutants", version: "27.1.0", program: "cargo-mutants", features: None };

/// Checks the dependencies against `deny.toml`.
///
/// # Errors
/// When the tool cannot be built, or a dependency breaks a rule.
pub(crate) fn deny() -> TaskResult {
    let program = DENY.built().map_err(|error| error.to_string())?;
    let arguments = ["--all-features", "--locked", "check", "licenses", "bans", "sources"];
    run(command(&program.to_string_lossy(), &arguments))
}
