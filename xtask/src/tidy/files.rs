//! The files of the repository: what git knows or would add; without git, what lies there.

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

    /// Rust that ships, as far as its path tells: no folder of tests, no file of tests, and written
    /// by people.
    pub(crate) fn is_production(&self) -> bool {
        let is_test = self.path.contains("/tests/") || self.path.ends_with("/tests.rs");
        self.is_rust() && !is_test && !self.path.contains("/generated/")
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
/// When a file cannot be read. Files that are no text are read as far as they are.
pub(crate) fn all(root: &Path) -> Result<Vec<File>, String> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let paths = match output(command("git", &arguments)) {
        Ok(listed) => listed.lines().map(str::to_owned).collect(),
        // No git, no clone, or a clone of somebody else's: look at the files themselves.
        Err(_) => walk(root, "")?,
    };
    let there = paths.into_iter().filter(|path| root.join(path).is_file());
    let read = |path: String| match fs::read(root.join(&path)) {
        Ok(bytes) => Ok(File { text: String::from_utf8_lossy(&bytes).into_owned(), path }),
        Err(error) => Err(format!("{path}: {error}")),
    };
    there.map(read).collect()
}

/// The files below a folder, without what is built and without git's own.
fn walk(root: &Path, folder: &str) -> Result<Vec<String>, String> {
    let complain = |error| format!("{folder}: {error}");
    let mut paths = Vec::new();
    for entry in fs::read_dir(root.join(folder)).map_err(complain)? {
        let entry = entry.map_err(complain)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if entry.path().is_file() {
            paths.push(path);
        } else if name != "target" && name != ".git" {
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
