//! The error of an extractor.

use core::fmt;

/// The result of an extractor.
pub type ExtractResult<T = ()> = Result<T, ExtractError>;

/// The kind of an [`ExtractError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExtractErrorKind {
    /// The request does not have the field. Another extractor may be tried.
    Missing,
    /// The request has the field, but it cannot be read.
    Malformed,
    /// The server does not provide the field: a configuration error.
    NotProvided,
}

/// A request has no subject to charge. Holds no value of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtractError {
    /// The kind of the error.
    pub kind: ExtractErrorKind,
    /// The header or extension at fault.
    pub field: String,
    /// What is accepted.
    pub accepted: &'static str,
}

impl ExtractError {
    /// The request does not have the field.
    pub fn missing(field: impl Into<String>, accepted: &'static str) -> Self {
        Self { kind: ExtractErrorKind::Missing, field: field.into(), accepted }
    }

    /// The field cannot be read.
    pub fn malformed(field: impl Into<String>, accepted: &'static str) -> Self {
        Self { kind: ExtractErrorKind::Malformed, field: field.into(), accepted }
    }

    /// The server does not provide the field.
    pub fn not_provided(field: impl Into<String>, accepted: &'static str) -> Self {
        Self { kind: ExtractErrorKind::NotProvided, field: field.into(), accepted }
    }
}

impl fmt::Display for ExtractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ExtractErrorKind::Missing => "is missing",
            ExtractErrorKind::Malformed => "cannot be read",
            ExtractErrorKind::NotProvided => "is not provided by the server",
        };
        write!(f, "{} {kind}; accepted: {}", self.field, self.accepted)
    }
}

impl std::error::Error for ExtractError {}
