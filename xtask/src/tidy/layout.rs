//! Rules about the places of files, and about imports.

use crate::files::File;

const CORE: &str = "crates/tollgate-core/src";
const ALGORITHMS: &str = "docs/algorithms.md";
const STORES: &str = "docs/stores.md";

/// A folder of the core, and the modules that its code must not name: those to its left in the flow
/// from limiter to store to algorithm.
const LEFT_OF: [(&str, &[&str]); 4] = [
    ("algorithm", &["store", "limiter"]),
    ("store", &["limiter"]),
    ("clock", &["store", "limiter"]),
    // The vocabulary: the files beside the folders.
    ("", &["limiter"]),
];

/// Everything the root may hold. A new entry must be named here.
const ROOT: [&str; 23] = [
    ".cargo",
    ".ci",
    ".dockerignore",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "bench",
    "clippy.toml",
    "crates",
    "deny.toml",
    "deploy",
    "docs",
    "examples",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "xtask",
];

/// Code names only what stands to its right in the flow, and the vocabulary.
pub(crate) fn imports_point_right(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let Some(inside) = file.path.strip_prefix(CORE).and_then(|path| path.strip_prefix('/'))
        else {
            continue;
        };
        let folder = inside.split_once('/').map_or("", |(folder, _)| folder);
        let left = LEFT_OF.iter().find(|(of, _)| *of == folder).map_or(&[][..], |(_, left)| left);
        // The root of the crate declares and re-exports everything.
        for (number, line) in file.lines().filter(|_| inside != "lib.rs") {
            let code = line.split("//").next().unwrap_or_default();
            let named = left.iter().find(|module| code.contains(&format!("crate::{module}")));
            if let Some(module) = named {
                let here = if folder.is_empty() { "the vocabulary" } else { folder };
                wrong.push(format!("{}:{number}: {here} must not name {module}", file.path));
            }
        }
    }
    wrong
}

/// Every folder of an algorithm has a section in the documentation.
pub(crate) fn algorithms_are_documented(files: &[File]) -> Vec<String> {
    has_sections(files, "algorithm", ALGORITHMS)
}

/// Every folder of a store has a section in the documentation.
pub(crate) fn stores_are_documented(files: &[File]) -> Vec<String> {
    has_sections(files, "store", STORES)
}

/// Every folder in `kind` is named in a heading of `page`.
fn has_sections(files: &[File], kind: &str, page: &str) -> Vec<String> {
    let prefix = format!("{CORE}/{kind}/");
    let text = files.iter().find(|file| file.path == page).map_or("", |file| &file.text);
    let is_section = |folder: &str| {
        let name = format!("`{folder}`");
        text.lines().any(|line| line.starts_with("## ") && line.contains(&name))
    };
    let inside = files.iter().filter_map(|file| file.path.strip_prefix(&prefix));
    let folders = inside.filter_map(|path| path.strip_suffix("/mod.rs"));
    let folders = folders.filter(|folder| !folder.contains('/') && !is_section(folder));
    folders.map(|folder| format!("{page}: has no section `{folder}`")).collect()
}

/// The root holds nothing that is not on the list.
pub(crate) fn root_holds_what_it_should(files: &[File]) -> Vec<String> {
    let first = |file: &File| file.path.split('/').next().unwrap_or_default().to_owned();
    let mut found: Vec<String> = files.iter().map(first).collect();
    found.sort_unstable();
    found.dedup();
    found.retain(|name| !ROOT.contains(&name.as_str()));
    found.iter().map(|name| format!("{name}: does not belong in the root")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(path: &str, text: &str) -> [File; 1] {
        [File::new(&format!("{CORE}/{path}"), text)]
    }

    #[test]
    fn an_import_that_points_left_is_found() {
        let names_store = "use crate::store::Store;\n";
        assert_eq!(imports_point_right(&core("algorithm/gcra/mod.rs", names_store)).len(), 1);
        assert!(imports_point_right(&core("limiter/mod.rs", names_store)).is_empty());
        let names_limiter = "use crate::limiter::Limiter;\n";
        assert_eq!(imports_point_right(&core("store/memory/mod.rs", names_limiter)).len(), 1);
        assert_eq!(imports_point_right(&core("charge.rs", names_limiter)).len(), 1);
        assert!(imports_point_right(&core("lib.rs", names_limiter)).is_empty());
        let in_words = "/// As [`Limiter`](crate::limiter::Limiter) does.\n";
        assert!(imports_point_right(&core("store/mod.rs", in_words)).is_empty());
    }

    #[test]
    fn an_algorithm_without_a_section_is_found() {
        let complaints = |page| {
            let [folder] = core("algorithm/gcra/mod.rs", "");
            algorithms_are_documented(&[folder, File::new(ALGORITHMS, page)]).len()
        };
        assert_eq!(complaints("## `gcra`: evenly spaced"), 0);
        assert_eq!(complaints("a text about `gcra`"), 1);
    }

    #[test]
    fn a_stray_file_in_the_root_is_found() {
        let files = [File::new("notes.local", ""), File::new("crates/notes.rs", "")];
        assert_eq!(root_holds_what_it_should(&files).len(), 1);
    }
}
