//! Every feature of every library alone, none of them, and all of them.
//!
//! The other steps build the workspace at once, where cargo unites the features that all members
//! enable: a crate that lacks a feature of a dependency still compiles there. Here each library is
//! compiled as a user compiles it.

use crate::metadata::{Package, packages};
use crate::run::{TaskResult, cargo, run};

/// Checks the libraries one by one.
///
/// # Errors
/// When a library does not compile with one of its selections of features.
pub(crate) fn features() -> TaskResult {
    for package in packages()?.iter().filter(|package| package.is_library) {
        for selection in selections(package) {
            println!("{} {}", package.name, selection.join(" "));
            // Not by RUSTFLAGS, with which all dependencies would be compiled again.
            let mut clippy =
                cargo(&["clippy", "--quiet", "--locked", "--lib", "-p", &package.name]);
            clippy.args(&selection).args(["--", "-D", "warnings"]);
            run(clippy)?;
        }
    }
    Ok(())
}

/// The arguments for each selection of features.
fn selections(package: &Package) -> Vec<Vec<&str>> {
    let Package { features, .. } = package;
    let none = vec!["--no-default-features"];
    let alone = features.iter().map(|feature| vec!["--no-default-features", "--features", feature]);
    // Of one feature, all is alone.
    let all = Some(vec!["--all-features"]).filter(|_| features.len() > 1);
    std::iter::once(none).chain(alone).chain(all).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(features: &[&str]) -> usize {
        let features = features.iter().map(|&feature| feature.to_owned()).collect();
        selections(&Package { features, ..Package::default() }).len()
    }

    #[test]
    fn each_feature_is_alone_once() {
        assert_eq!(count(&[]), 1);
        assert_eq!(count(&["a"]), 2);
        assert_eq!(count(&["a", "b"]), 4);
    }
}
