//! The rules that neither the compiler nor clippy checks. `cargo xtask tidy`, and a test.
//!
//! A rule takes the files of the repository and returns complaints, as `path:line: message`. To add
//! one: write the function with a test that makes it fail, and name it in [`RULES`].

mod layers;
mod layout;
mod manifest;
mod source;
mod text;

use crate::files::{self, File};
use crate::metadata::packages;
use crate::run::{TaskResult, root};

/// A rule: files in, complaints out.
type Rule = fn(&[File]) -> Vec<String>;

const RULES: [Rule; 13] = [
    source::opens_with_documentation,
    source::is_short,
    source::leaves_nothing_undone,
    source::features_select_items_only,
    layout::imports_point_right,
    layout::algorithms_are_documented,
    layout::stores_are_documented,
    layout::root_holds_what_it_should,
    manifest::dependencies_are_declared_once,
    manifest::lints_are_inherited,
    text::lines_are_narrow,
    text::words_are_plain,
    text::types_have_names,
];

/// Checks every rule on every file, and the layers of the crates.
///
/// # Errors
/// All complaints.
pub(crate) fn tidy() -> TaskResult {
    let files = files::all(root())?;
    let mut wrong: Vec<String> = RULES.iter().flat_map(|rule| rule(&files)).collect();
    let packages = packages()?;
    wrong.extend(layers::dependencies_follow_the_layers(&packages));
    wrong.extend(layers::layers_name_crates(&packages));
    if wrong.is_empty() {
        println!("{} files are tidy", files.len());
        return Ok(());
    }
    Err(format!("{}\n{} complaints", wrong.join("\n"), wrong.len()))
}

/// Prints every use of a word that the project does not use, and their number per crate.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn print_words() -> TaskResult {
    text::print_words(&files::all(root())?);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_repository_is_tidy() {
        super::tidy().unwrap();
    }
}
