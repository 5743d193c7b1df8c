//! The page: what was measured, between the marks of `docs/performance.md`.
//!
//! What stands outside of the marks is written by hand, and stays.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;

/// A part of the page: the name in its marks, and its text.
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) text: String,
}

/// Writes the sections that were measured into the page.
///
/// # Errors
/// When the page has no marks for a section, or cannot be written.
pub(super) fn write(sections: &[Section]) -> Result<()> {
    let path = docs().join("performance.md");
    let mut page = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    for section in sections {
        page = replaced(&page, section)?;
    }
    fs::write(&path, page).map_err(|error| error.to_string())
}

/// Writes the plot.
pub(super) fn write_plot(svg: &str) -> Result<()> {
    fs::write(docs().join("performance.svg"), svg).map_err(|error| error.to_string())
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn replaced(page: &str, Section { name, text }: &Section) -> Result<String> {
    let (begin, end) = (format!("<!-- {name}: generated -->\n"), "<!-- end -->");
    let lacks = || format!("docs/performance.md lacks the marks of `{name}`");
    let (head, rest) = page.split_once(&begin).ok_or_else(lacks)?;
    let (_, tail) = rest.split_once(end).ok_or_else(lacks)?;
    Ok(format!("{head}{begin}{}\n{end}{tail}", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let page = "a\n<!-- x: generated -->\nold\n<!-- end -->\nb\n";
        let section = |name| Section { name, text: "new\n\n".into() };
        let wanted = "a\n<!-- x: generated -->\nnew\n<!-- end -->\nb\n";
        assert_eq!(replaced(page, &section("x")).unwrap(), wanted);
        assert!(replaced(page, &section("y")).is_err());
    }
}
