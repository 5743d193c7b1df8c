//! Size, documentation and public items of every crate: `cargo xtask lines [FOLDER]`.
//!
//! It counts `crates/*/src` without tests and generated code. A line of documentation starts with
//! `///` or `//!`. The end of a function is found by indentation, which rustfmt guarantees.

use std::collections::BTreeMap;
use std::path::Path;

use crate::files::{self, File};
use crate::public_items::{self, PublicItems};
use crate::run::{TaskResult, root};

/// The figures of one crate.
#[derive(Debug, Default)]
struct Figures {
    files: usize,
    lines: usize,
    documentation: usize,
    largest_file: Largest,
    largest_function: Largest,
    public: PublicItems,
}

/// The largest item of a kind, and its lines.
#[derive(Debug, Default)]
struct Largest {
    lines: usize,
    name: String,
}

impl Largest {
    fn include(&mut self, lines: usize, name: &str) {
        if lines > self.lines {
            *self = Self { lines, name: name.to_owned() };
        }
    }
}

impl Figures {
    fn add(&mut self, path: &str, file: &File) {
        let lines = file.production_lines();
        self.files += 1;
        self.lines += lines.len();
        self.documentation += lines.iter().filter(|line| is_documentation(line)).count();
        self.largest_file.include(lines.len(), path);
        for (name, length) in functions(&lines) {
            self.largest_function.include(length, name);
        }
    }

    fn print(&self, name: &str) {
        let Self { files, lines, documentation, largest_file, largest_function, public } = self;
        let PublicItems { items, methods } = public;
        let share = documentation * 100 / lines.max(&1);
        println!(
            "{name:<22} {files:>5} {lines:>7} {share:>5} % {items:>5} {methods:>7}  \
             {:>3} {:<32} {:>3} {}",
            largest_file.lines, largest_file.name, largest_function.lines, largest_function.name,
        );
    }
}

/// Prints the figures of each crate of this repository, or of another checkout.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn lines(folder: Option<&str>) -> TaskResult {
    let root = folder.map_or(root(), Path::new);
    let mut crates: BTreeMap<String, Figures> = BTreeMap::new();
    let files = files::all(root)?;
    for file in files.iter().filter(|file| file.is_production()) {
        let inside = file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
        // A crate inside of a crate, such as its fuzz targets, does not ship.
        if let Some((name, path)) = inside.filter(|(name, _)| !name.contains('/')) {
            crates.entry(name.to_owned()).or_default().add(path, file);
        }
    }
    for (name, figures) in &mut crates {
        figures.public = public_items::count(&format!("crates/{name}/src/"), &files)?;
    }
    println!(
        "{:<22} {:>5} {:>7} {:>7} {:>5} {:>7}  {:<36} largest function",
        "crate", "files", "lines", "docs", "items", "methods", "largest file"
    );
    for (name, figures) in &crates {
        figures.print(name);
    }
    let sum = |of: fn(&Figures) -> usize| crates.values().map(of).sum::<usize>();
    let (files, lines) = (sum(|figures| figures.files), sum(|figures| figures.lines));
    let share = sum(|figures| figures.documentation) * 100 / lines.max(1);
    println!("{:<22} {files:>5} {lines:>7} {share:>5} %", "all");
    Ok(())
}

fn is_documentation(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("///") || line.starts_with("//!")
}

/// The functions in these lines, each with its name and its lines from signature to closing brace.
fn functions<'a>(lines: &[&'a str]) -> Vec<(&'a str, usize)> {
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indentation = line.len() - line.trim_start().len();
        let ends = |line: &&str| {
            let rest = line.get(indentation..).unwrap_or_default();
            line.len() - line.trim_start().len() == indentation && rest.starts_with('}')
        };
        // A function without a body, or with an empty one, ends on its first line.
        let is_whole = line.ends_with(';') || line.ends_with('}');
        let body = lines.iter().skip(start + 1).position(ends).map_or(0, |end| end + 1);
        found.push((name, if is_whole { 1 } else { body + 1 }));
    }
    found
}

/// The name that a line declares as a function.
fn function_name(line: &str) -> Option<&str> {
    const BEFORE: [&str; 6] = ["pub", "pub(crate)", "pub(super)", "const", "async", "default"];
    let (before, after) = line.split_once("fn ")?;
    let is_declaration = before.split_whitespace().all(|word| BEFORE.contains(&word));
    let end = after.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
    after.get(..end).filter(|name| is_declaration && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_counts_from_signature_to_closing_brace() {
        let lines = [
            "impl A {",
            "    pub fn a(",
            "        b: u8,",
            "    ) {",
            "    }",
            "    fn c() {}",
            "}",
        ];
        assert_eq!(functions(&lines), [("a", 4), ("c", 1)]);
    }

    #[test]
    fn a_call_is_no_declaration() {
        assert_eq!(function_name("    let f: fn (u8) = g;"), None);
        assert_eq!(function_name("// a fn name is no function"), None);
    }

    #[test]
    fn tests_count_neither_as_lines_nor_as_documentation() {
        let text = "//! A file.\nfn a() {}\n#[cfg(test)]\nmod tests {\n    /// A test.\n}\n";
        let mut figures = Figures::default();
        figures.add("a.rs", &File::new("crates/x/src/a.rs", text));
        assert_eq!((figures.lines, figures.documentation), (2, 1));
    }
}
