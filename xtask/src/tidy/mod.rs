//! The rules that neither the compiler nor clippy knows. `cargo xtask tidy`, and a test.
//!
//! A rule takes the files of the repository and returns what is wrong, as `path:line: message`.
//! To add one: write the function and name it in [`RULES`].

mod layout;
mod manifest;
mod source;

use crate::files::{self, File};
use crate::run::{Done, root};

/// A rule: the files in, complaints out.
type Rule = fn(&[File]) -> Vec<String>;

const RULES: [Rule; 9] = [
    source::opens_with_documentation,
    source::is_short,
    source::leaves_nothing_undone,
    source::features_select_items_only,
    layout::imports_point_right,
    layout::algorithms_are_documented,
    layout::stores_are_documented,
    layout::root_holds_what_it_should,
    manifest::dependencies_are_declared_once,
];

/// Checks every rule on every file.
///
/// # Errors
/// Everything that is wrong, not only the first.
pub(crate) fn tidy() -> Done {
    let files = files::all(root())?;
    let wrong: Vec<String> = RULES.iter().flat_map(|rule| rule(&files)).collect();
    if wrong.is_empty() {
        println!("{} files are tidy", files.len());
        return Ok(());
    }
    Err(format!("{}\n{} complaints", wrong.join("\n"), wrong.len()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_repository_is_tidy() {
        super::tidy().unwrap();
    }
}
