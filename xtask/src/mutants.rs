//! Tests of the tests: cargo-mutants changes the code in one place at a time, and reports the
//! changes that no test notices. It takes hours: run a shard of it.

use std::path::PathBuf;

use crate::files::{self, File};
use crate::run::{TaskResult, command, root, run};
use crate::tools::MUTANTS;

/// The code that decides: algorithms, rounds, races, outages.
const PATHS: [&str; 6] = [
    "crates/tollgate-core/src/algorithm/**/*.rs",
    "crates/tollgate-core/src/combine/**/*.rs",
    "crates/tollgate-core/src/limiter/failure/**/*.rs",
    "crates/tollgate-core/src/store/cas/**/*.rs",
    "crates/tollgate-core/src/store/plan.rs",
    "crates/tollgate-core/src/store/ranges.rs",
];

/// The packages whose tests must notice a change; none of them starts a server.
const TESTS: [&str; 3] = ["tollgate-core", "tollgate", "tollgate-testkit"];

/// `mutants [--OPTION=VALUE] [PATHS]`: options of cargo-mutants, such as `--shard=0/8`.
///
/// # Errors
/// When a path names no file, the tool cannot be built, the tests fail without a change, or a
/// change passes all tests.
pub(crate) fn mutants(arguments: &[&str]) -> TaskResult {
    let (options, paths): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|argument| argument.starts_with("--"));
    let paths = if paths.is_empty() { &PATHS[..] } else { &paths };
    all_name_files(paths, &files::all(root())?)?;
    let program = MUTANTS.built().map_err(|error| error.to_string())?;
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let output = root().join(target.map_or_else(|| PathBuf::from("target"), PathBuf::from));
    let output = output.join("mutants");
    let mut mutants = command(&program.to_string_lossy(), &["mutants", "-j1", "--no-shuffle"]);
    for path in paths {
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

/// cargo-mutants ignores a path that names no file: its code would look as if all was caught.
fn all_name_files(paths: &[&str], files: &[File]) -> TaskResult {
    let names_none = |path: &&&str| !files.iter().any(|file| names(path, &file.path));
    match paths.iter().find(names_none) {
        Some(path) => Err(format!("`{path}` names no file; paths start at the root")),
        None => Ok(()),
    }
}

/// Whether a pattern names a file: `*` is any text within a folder, `**/` any folders.
fn names(pattern: &str, file: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == file };
    let Some(rest) = file.strip_prefix(before) else { return false };
    let ends = rest.char_indices().map(|(end, _)| end).chain([rest.len()]);
    let ends = ends.map(|end| rest.split_at(end));
    match after.strip_prefix("*/") {
        Some(inside) => {
            let folders = rest.match_indices('/').map(|(end, _)| rest.split_at(end + 1).1);
            names(inside, rest) || folders.into_iter().any(|rest| names(inside, rest))
        }
        None => ends
            .take_while(|(skipped, _)| !skipped.contains('/'))
            .any(|(_, rest)| names(after, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_names_a_file() {
        all_name_files(&PATHS, &files::all(root()).unwrap()).unwrap();
    }

    #[test]
    fn a_path_that_names_no_file_is_an_error() {
        let files = [File::new("a/b/c.rs", ""), File::new("a/d.rs", "")];
        for path in ["a/d.rs", "a/**/*.rs", "a/**/c.rs", "a/*/c.rs", "a/*.rs"] {
            assert_eq!(all_name_files(&[path], &files), Ok(()), "{path}");
        }
        for path in ["d.rs", "a/b", "a/b/**/d.rs", "b/**/*.rs", "*.rs", "a/*/d.rs"] {
            let error = all_name_files(&["a/d.rs", path], &files).unwrap_err();
            assert!(error.starts_with(&format!("`{path}` names no file")), "{error}");
        }
    }
}
