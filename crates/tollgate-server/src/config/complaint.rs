//! What is wrong with a configuration: where, which field, and what to write instead. All of it at
//! once, so that a file is not fixed one error at a time.

use std::fmt;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The line of the file, if it comes from one.
    pub line: Option<usize>,
    /// The field at fault, as a path.
    pub field: String,
    /// What is wrong, and what is accepted.
    pub message: String,
}

impl Complaint {
    pub(super) fn at(line: usize, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { line: Some(line), field: field.into(), message: message.into() }
    }

    pub(super) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { line: None, field: field.into(), message: message.into() }
    }
}

/// Everything that is wrong with a configuration; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaints {
    /// The file, if there is one.
    pub file: Option<String>,
    /// What is wrong, in the order in which it was found.
    pub list: Vec<Complaint>,
}

impl fmt::Display for Complaints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, complaint) in self.list.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            if let (Some(line), Some(file)) = (complaint.line, &self.file) {
                write!(f, "{file}:{line}: ")?;
            }
            write!(f, "{}: {}", complaint.field, complaint.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Complaints {}
