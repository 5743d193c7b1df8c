//! The files of the repository: the files that git tracks or would add; without git, all files.

use std::fs;
use std::path::Path;

use crate::run::{command, output};

/// One file of text.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the root, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// Its lines, counted from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// Whether it is Rust code that ships, by its path: neither tests nor generated.
    pub(crate) fn is_production(&self) -> bool {
        let is_test = self.path.contains("/tests/") || self.path.ends_with("/tests.rs");
        self.is_rust() && !is_test && !self.path.contains("/generated/")
    }

    /// The lines before the module of tests.
    pub(crate) fn production_lines(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.text.lines().collect();
        let opens_tests = |pair: &[&str]| pair == ["#[cfg(test)]", "mod tests {"];
        let end = lines.windows(2).position(opens_tests).unwrap_or(lines.len());
        lines.truncate(end);
        lines
    }

    pub(crate) fn is_rust(&self) -> bool {
        has_extension(&self.path, "rs")
    }

    pub(crate) fn is_markdown(&self) -> bool {
        has_extension(&self.path, "md")
    }

    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

/// All files under the root.
///
/// # Errors
/// When a file cannot be read. Bytes that are not UTF-8 are replaced.
pub(crate) fn all(root: &Path) -> Result<Vec<File>, String> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let mut git = command("git", &arguments);
    git.current_dir(root);
    let paths = match output(git) {
        Ok(listed) => listed.lines().map(str::to_owned).collect(),
        // No git, or no clone, or a clone that git distrusts because of its owner.
        Err(_) => walk(root, "")?,
    };
    let existing = paths.into_iter().filter(|path| root.join(path).is_file());
    let read = |path: String| match fs::read(root.join(&path)) {
        Ok(bytes) => Ok(File { text: String::from_utf8_lossy(&bytes).into_owned(), path }),
        Err(error) => Err(format!("{path}: {error}")),
    };
    existing.map(read).collect()
}

/// The files below a folder, without build output and without the folder of git.
fn walk(root: &Path, folder: &str) -> Result<Vec<String>, String> {
    let failed = |error| format!("{folder}: {error}");
    let mut paths = Vec::new();
    for entry in fs::read_dir(root.join(folder)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if entry.path().is_file() {
            paths.push(path);
        } else if name != "target" && name != ".git" && path != "dist" {
            paths.extend(walk(root, &path)?);
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use crate::run::root;

    #[test]
    fn walking_finds_what_git_lists() {
        let walked = super::walk(root(), "").unwrap();
        let listed = super::all(root()).unwrap();
        assert!(listed.len() > 100);
        for file in listed {
            assert!(walked.contains(&file.path), "{} was not found", file.path);
        }
    }
}
