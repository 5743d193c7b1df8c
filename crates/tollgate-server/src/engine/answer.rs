//! What the engine answers: a decision with the name of its policy, or why there is none.

use std::fmt;

use tollgate::{Code, Decision, Error, Name, OutageMode, Verdict};

use crate::policy::Described;

/// How long to wait before asking a store again that is busy or away, when nothing better is known.
const RETRY_MS: u64 = 1_000;

/// A decision under a policy.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The policy that was asked.
    pub policy: Name,
    /// The decision; its `binding` is the name of the limit within the policy.
    pub decision: Decision,
    /// What the policy would have answered, were it not in shadow mode.
    pub shadow: Option<Verdict>,
}

/// What a refund gave back.
#[derive(Clone, Debug)]
pub struct Refund {
    /// The policy that was asked.
    pub policy: Name,
    /// Units given back, over all limits of the policy.
    pub units: u64,
    /// How the key stands now.
    pub standing: Decision,
}

/// Which limits apply to a key.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The policy that was asked.
    pub policy: Name,
    /// Its limits, in the order in which they are charged.
    pub limits: Vec<Described>,
    /// Whether the policy decides and counts but never denies.
    pub shadow: bool,
}

/// Why no decision could be made, and when to try again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What went wrong.
    pub error: Error,
    /// Milliseconds to wait, if trying again can help.
    pub retry_after_ms: Option<u64>,
}

impl Failure {
    /// A decision that was refused because the store could not answer is a failure of the service,
    /// not of the caller.
    pub(super) fn of_closed(decision: &Decision) -> Option<Self> {
        let closed = decision.degraded == Some(OutageMode::Closed);
        (closed && decision.verdict == Verdict::Denied).then(|| Self {
            error: Error::new(
                Code::StoreUnavailable,
                "the store cannot answer, and the policy refuses without it",
            ),
            retry_after_ms: decision.retry_after_ms,
        })
    }

    /// The same failure of an element of a batch: the field becomes a path, or is the element.
    #[must_use]
    pub fn within(mut self, path: &str) -> Self {
        let field = match self.error.field() {
            Some(field) => format!("{path}.{field}"),
            None => path.to_owned(),
        };
        self.error = self.error.with_field(field);
        self
    }
}

/// Whether it is the service that failed, and not who asked.
pub(super) const fn is_of_service(code: Code) -> bool {
    is_passing(code) || matches!(code, Code::CorruptState)
}

/// Whether trying again can help.
const fn is_passing(code: Code) -> bool {
    matches!(
        code,
        Code::StoreUnavailable | Code::Timeout | Code::ConflictExhausted | Code::QueueFull
    )
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { retry_after_ms: is_passing(error.code()).then_some(RETRY_MS), error }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}
