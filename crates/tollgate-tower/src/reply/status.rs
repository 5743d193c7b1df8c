//! Which status a refusal has, in HTTP and in gRPC: the table of error codes.

use http::StatusCode;
use tollgate::{Code, Degraded, Error, Verdict};

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
                let closed = decision.degraded == Some(Degraded::Closed) && !is_final;
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
        match (refusal, self.retry_after_ms) {
            (Refusal::Denied { .. }, _) if self.is_final => {
                "the request costs more than the quota ever grants; waiting is useless".into()
            }
            (Refusal::Denied { decision, .. }, _)
                if decision.degraded == Some(Degraded::Closed) =>
            {
                "the limit cannot be checked at the moment".into()
            }
            (Refusal::Denied { .. }, Some(wait_ms)) => format!("try again in {wait_ms} ms"),
            (Refusal::Denied { .. }, None) => "the quota is used up".into(),
            // What is wrong inside is no business of the client.
            (Refusal::Undecided(error), _) if self.http.is_server_error() => {
                format!("the limit could not be checked: {}", error.code())
            }
            (Refusal::Undecided(error), _) => error.message().into(),
            (Refusal::Unkeyed(unkeyed), _) if self.http.is_server_error() => {
                format!("the limit could not be checked: {} is not provided", unkeyed.field)
            }
            (Refusal::Unkeyed(unkeyed), _) => unkeyed.to_string(),
        }
    }
}
