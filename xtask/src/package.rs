//! The packages of the published crates: each is complete, and holds nothing that it does not need.

use crate::metadata::{Package, packages};
use crate::run::{TaskResult, cargo, command, output, run, target};

/// The folders that a package may have.
const FOLDERS: [&str; 4] = ["proto/", "src/", "tests/fuzzing/", "vectors/"];
/// The files that each package has.
const FILES: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];
/// The files that cargo adds.
const OF_CARGO: [&str; 3] = [".cargo_vcs_info.json", "Cargo.lock", "Cargo.toml.orig"];

/// The end of the host of an address that does not exist.
const PLACEHOLDER: &str = ".invalid/";

/// Packages every published crate, and checks the manifests and the lists of files. With `verify`,
/// cargo builds each package from its files alone too, which takes minutes.
///
/// # Errors
/// When a crate cannot be packaged, or a package lacks something or has too much.
pub(crate) fn package(verify: bool) -> TaskResult {
    let packages: Vec<Package> = packages()?.into_iter().filter(|it| it.is_published).collect();
    // Offline: set-up has fetched the dependencies. Else cargo asks the index for each crate.
    let mut make = cargo(&["package", "--quiet", "--locked", "--offline", "--allow-dirty"]);
    make.args((!verify).then_some("--no-verify"));
    for package in &packages {
        make.args(["-p", &package.name]);
    }
    run(make)?;
    let mut wrong = Vec::new();
    for package in &packages {
        wrong.extend(
            package.missing.iter().map(|field| format!("{}: has no {field}", package.name)),
        );
        let archive = format!("{}-{}", package.name, package.version);
        let path = target().join(format!("package/{archive}.crate"));
        let listed = output(command("tar", &["--list", "--file", &path.to_string_lossy()]))?;
        let files: Vec<&str> = listed
            .lines()
            .filter_map(|line| line.strip_prefix(&archive)?.strip_prefix('/'))
            .collect();
        wrong.extend(complaints(&files).iter().map(|it| format!("{}: {it}", package.name)));
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    println!("{} crates are packaged in {}", packages.len(), target().join("package").display());
    if let Some(address) = packages.iter().map(|it| &it.repository).find(|it| is_placeholder(it)) {
        println!("WARNING: {address} is a placeholder: replace it in Cargo.toml before publishing");
    }
    Ok(())
}

/// What is wrong with the list of files of a package.
fn complaints(files: &[&str]) -> Vec<String> {
    let missing = FILES.iter().filter(|file| !files.contains(file));
    let is_needed = |file: &&&str| {
        let known = FILES.iter().chain(&OF_CARGO);
        known.chain([&"build.rs"]).any(|known| known == *file)
            || FOLDERS.iter().any(|folder| file.starts_with(folder))
    };
    let extra = files.iter().filter(|file| !is_needed(file));
    let missing = missing.map(|file| format!("the package lacks {file}"));
    missing.chain(extra.map(|file| format!("the package does not need {file}"))).collect()
}

fn is_placeholder(address: &str) -> bool {
    address.contains(PLACEHOLDER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_complete_and_has_no_more() {
        let mut files = [&FILES[..], &OF_CARGO, &["src/lib.rs"]].concat();
        assert!(complaints(&files).is_empty());
        files.push("tests/it/main.rs");
        assert_eq!(complaints(&files), ["the package does not need tests/it/main.rs"]);
        files.retain(|file| !file.starts_with("LICENSE"));
        assert_eq!(complaints(&files).len(), 3);
    }

    #[test]
    fn every_published_crate_has_the_fields_of_a_registry() {
        let packages = packages().unwrap();
        let published: Vec<&Package> = packages.iter().filter(|it| it.is_published).collect();
        assert!(published.len() > 10);
        for package in published {
            assert!(package.missing.is_empty(), "{}: {:?}", package.name, package.missing);
        }
    }
}
