//! Errors of a configuration: the line, the field, and what to write instead. All errors are
//! reported at once, so that a file is not corrected one error at a time.

use std::fmt;

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The line of the file, if it comes from one.
    pub line: Option<usize>,
    /// The field, as a path.
    pub field: String,
    /// What is wrong, and what is accepted.
    pub message: String,
}

impl ConfigError {
    /// An error at a line of the file.
    pub fn at(line: usize, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { line: Some(line), field: field.into(), message: message.into() }
    }

    /// An error outside of the file: of a flag, of the environment, or of a missing field.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { line: None, field: field.into(), message: message.into() }
    }
}

/// All errors of a configuration; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The file, if there is one.
    pub file: Option<String>,
    /// The errors, in the order in which they were found.
    pub list: Vec<ConfigError>,
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.list.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            if let (Some(line), Some(file)) = (error.line, &self.file) {
                write!(f, "{file}:{line}: ")?;
            }
            write!(f, "{}: {}", error.field, error.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
