//! What went wrong with a server, in words: whoever reads it is a person in front of a failed test.

use std::fmt;
use std::io;

/// Why a server could not be installed, started or asked.
#[derive(Debug)]
pub struct Error {
    message: String,
}

/// A result of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error that says this.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// The same error, after what was being done.
    #[must_use]
    pub fn during(self, what: impl fmt::Display) -> Self {
        Self::new(format!("{what}: {self}"))
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
