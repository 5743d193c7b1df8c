//! The error of this crate: a message for the reader of a failed test.

use std::fmt;
use std::io;
use std::path::Path;

/// A server could not be installed, started or called.
#[derive(Debug)]
pub struct Error {
    message: String,
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// The same error, prefixed with the action that failed.
    #[must_use]
    pub fn during(self, what: impl fmt::Display) -> Self {
        Self::new(format!("{what}: {self}"))
    }
}

/// Prefixes an error with the path that it concerns.
pub(crate) trait AtPath<T> {
    fn at(self, path: impl AsRef<Path>) -> Result<T>;
}

impl<T> AtPath<T> for io::Result<T> {
    fn at(self, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|error| Error::from(error).during(path.as_ref().display()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::new(error.to_string())
    }
}
