//! Which status a refusal has, in HTTP and in gRPC: the table of error codes.

use http::StatusCode;
use tollgate::{Code, Decision, Error, OutageMode, Verdict};

use super::Refusal;
use crate::extract::Trouble;

/// Codes of gRPC.
pub(super) mod code {
    pub(super) const INVALID_ARGUMENT: u8 = 3;
    pub(super) const NOT_FOUND: u8 = 5;
    pub(super) const ALREADY_EXISTS: u8 = 6;
    pub(super) const RESOURCE_EXHAUSTED: u8 = 8;
    pub(super) const UNIMPLEMENTED: u8 = 12;
    pub(super) const INTERNAL: u8 = 13;
    pub(super) const UNAVAILABLE: u8 = 14;
    pub(super) const DATA_LOSS: u8 = 15;
    pub(super) const UNAUTHENTICATED: u8 = 16;
}

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
/// Contention passes quickly; a second is the least that a header can say.
const CONTENTION_MS: u64 = 1_000;

/// The status of a refusal.
#[derive(Clone, Debug)]
pub(super) struct Status {
    pub(super) http: StatusCode,
    pub(super) grpc: u8,
    /// The problem type, where there is one.
    pub(super) kind: Option<(&'static str, &'static str)>,
    /// The error code, where no decision was made.
    pub(super) code: Option<Code>,
    pub(super) retry_after_ms: Option<u64>,
    /// Whether waiting is useless.
    pub(super) is_final: bool,
}

impl Status {
    pub(super) fn of(refusal: &Refusal<'_>) -> Self {
        match refusal {
            Refusal::Denied { decision, .. } => {
                let is_final = decision.verdict == Verdict::Never;
                let retry_after_ms = decision.retry_after_ms.filter(|_| !is_final);
                let closed = decision.degraded == Some(OutageMode::Closed) && !is_final;
                let (http, grpc, kind) = if closed {
                    let kind = (REDUCED_CAPACITY, "Temporary Reduced Capacity");
                    (StatusCode::SERVICE_UNAVAILABLE, code::UNAVAILABLE, kind)
                } else {
                    let kind = (QUOTA_EXCEEDED, "Quota Exceeded");
                    (StatusCode::TOO_MANY_REQUESTS, code::RESOURCE_EXHAUSTED, kind)
                };
                Self { http, grpc, kind: Some(kind), code: None, retry_after_ms, is_final }
            }
            Refusal::Undecided(error) => Self::undecided(error),
            Refusal::Unkeyed(unkeyed) => match unkeyed.trouble {
                Trouble::Missing | Trouble::Malformed => Self::plain(
                    StatusCode::BAD_REQUEST,
                    code::INVALID_ARGUMENT,
                    Code::InvalidRequest,
                ),
                Trouble::NotProvided => Self::plain(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    code::INTERNAL,
                    Code::ConfigInvalid,
                ),
            },
        }
    }

    fn undecided(error: &Error) -> Self {
        let code = error.code();
        let (http, grpc) = match code {
            Code::StoreUnavailable | Code::Timeout => {
                (StatusCode::SERVICE_UNAVAILABLE, code::UNAVAILABLE)
            }
            Code::ConflictExhausted | Code::QueueFull => {
                (StatusCode::SERVICE_UNAVAILABLE, code::RESOURCE_EXHAUSTED)
            }
            Code::CorruptState => (StatusCode::INTERNAL_SERVER_ERROR, code::DATA_LOSS),
            Code::InvalidRequest => (StatusCode::BAD_REQUEST, code::INVALID_ARGUMENT),
            Code::UnknownPolicy => (StatusCode::NOT_FOUND, code::NOT_FOUND),
            Code::IdempotencyConflict => (StatusCode::CONFLICT, code::ALREADY_EXISTS),
            Code::Unauthorized => (StatusCode::UNAUTHORIZED, code::UNAUTHENTICATED),
            Code::ConfigInvalid | Code::Unsupported => {
                (StatusCode::NOT_IMPLEMENTED, code::UNIMPLEMENTED)
            }
            _ => (StatusCode::INTERNAL_SERVER_ERROR, code::INTERNAL),
        };
        let mut status = Self::plain(http, grpc, code);
        if http == StatusCode::SERVICE_UNAVAILABLE {
            status.retry_after_ms = Some(CONTENTION_MS);
        }
        status
    }

    const fn plain(http: StatusCode, grpc: u8, code: Code) -> Self {
        Self { http, grpc, kind: None, code: Some(code), retry_after_ms: None, is_final: false }
    }

    /// One sentence for whoever reads the response.
    pub(super) fn detail(&self, refusal: &Refusal<'_>) -> String {
        let mut text = String::new();
        match refusal {
            Refusal::Denied { decision, .. } => self.push_denial(decision, &mut text),
            // What is wrong inside is no business of the client.
            Refusal::Undecided(error) if self.http.is_server_error() => {
                text = format!("the limit could not be checked: {}", error.code());
            }
            Refusal::Undecided(error) => text.push_str(error.message()),
            Refusal::Unkeyed(unkeyed) if self.http.is_server_error() => {
                let field = &unkeyed.field;
                text = format!("the limit could not be checked: {field} is not provided");
            }
            Refusal::Unkeyed(unkeyed) => text = unkeyed.to_string(),
        }
        text
    }

    /// The same for a denial, appended: letters, digits and spaces, as in any text that is quoted.
    pub(super) fn push_denial(&self, decision: &Decision, text: &mut String) {
        let rest = match self.retry_after_ms {
            _ if self.is_final => {
                "the request costs more than the quota ever grants; waiting is useless"
            }
            _ if decision.degraded == Some(OutageMode::Closed) => {
                "the limit cannot be checked at the moment"
            }
            Some(wait_ms) => {
                text.push_str("try again in ");
                text.push_str(itoa::Buffer::new().format(wait_ms));
                " ms"
            }
            None => "the quota is used up",
        };
        text.push_str(rest);
    }
}
