//! Faults of real stores under a fleet of servers, with release builds: what callers get, for
//! `docs/guarantees.md`.

use crate::run::{TaskResult, cargo, command, run, target};

const PAGE: &str = "docs/guarantees.md";

/// Runs the scenarios and figures of these names, all of them without names, and writes the page.
pub(crate) fn faults(arguments: &[&str]) -> TaskResult {
    let packages = ["-p", "tollgate-cli", "-p", "tollgate-faults"];
    run(cargo(&[&["build", "--release", "--locked"], &packages[..]].concat()))?;
    let built = target().join("release");
    let path = |name: &str| built.join(name).to_string_lossy().into_owned();
    let (suite, server) = (path("tollgate-faults"), path("tollgate"));
    let (options, names): (Vec<&str>, Vec<&str>) = match arguments {
        ["--seed", seed, names @ ..] => (vec!["--seed", seed], names.to_vec()),
        names => (Vec::new(), names.to_vec()),
    };
    run(command(&suite, &[&["--write", PAGE], &options[..], &[&server], &names].concat()))
}
