//! Why a request could not be charged to anybody.

use core::fmt;

/// What kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trouble {
    /// The request does not have it. Another extractor may be tried.
    Missing,
    /// The request has it, but it cannot be read.
    Malformed,
    /// The server does not provide it: a mistake of the operator.
    NotProvided,
}

/// A request that could not be charged to anybody. Holds no value of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unkeyed {
    /// What kind of trouble it is.
    pub trouble: Trouble,
    /// The header or extension at fault.
    pub field: String,
    /// What is accepted.
    pub accepted: &'static str,
}

impl Unkeyed {
    /// The request does not have the field.
    pub fn missing(field: impl Into<String>, accepted: &'static str) -> Self {
        Self { trouble: Trouble::Missing, field: field.into(), accepted }
    }

    /// The field cannot be read.
    pub fn malformed(field: impl Into<String>, accepted: &'static str) -> Self {
        Self { trouble: Trouble::Malformed, field: field.into(), accepted }
    }

    /// The server does not provide the field.
    pub fn not_provided(field: impl Into<String>, accepted: &'static str) -> Self {
        Self { trouble: Trouble::NotProvided, field: field.into(), accepted }
    }
}

impl fmt::Display for Unkeyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trouble = match self.trouble {
            Trouble::Missing => "is missing",
            Trouble::Malformed => "cannot be read",
            Trouble::NotProvided => "is not provided by the server",
        };
        write!(f, "{} {trouble}; accepted: {}", self.field, self.accepted)
    }
}

impl std::error::Error for Unkeyed {}
