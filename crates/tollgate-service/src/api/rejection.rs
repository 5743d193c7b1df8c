//! Requests that are rejected before they reach the engine.

use bytes::Bytes;
use http::header::ALLOW;
use http::{HeaderName, HeaderValue, StatusCode};
use tollgate_core::{Code, Error};
use tollgate_http::{GrpcCode, Problem};

use super::{BODY_MAX_BYTES, Response, encode};

/// Why a request is rejected.
#[derive(Clone, Debug)]
pub enum Rejection {
    /// No endpoint has this path.
    UnknownPath,
    /// The path has an endpoint, for these methods.
    MethodNotAllowed(&'static str),
    /// The client has no token, or one that is not known.
    Unauthorized(Error),
    /// Any other error.
    Failed(Error),
    /// The body is longer than [`BODY_MAX_BYTES`], or broke off.
    BodyTooLarge,
    /// The body did not arrive in time.
    BodyTimedOut,
}

impl Rejection {
    /// Of an error.
    #[must_use]
    pub fn of(error: Error) -> Self {
        match error.code() {
            Code::Unauthorized => Self::Unauthorized(error),
            _ => Self::Failed(error),
        }
    }

    /// The response: a problem document.
    #[must_use]
    pub fn response(self) -> Response {
        let too_large;
        let (status, field, message) = match self {
            Self::Unauthorized(error) | Self::Failed(error) => {
                return encode::failure(&error.into());
            }
            Self::UnknownPath => (StatusCode::NOT_FOUND, "path", "is not known; see /openapi.json"),
            Self::MethodNotAllowed(_) => {
                let message = "is not accepted here; see /openapi.json";
                (StatusCode::METHOD_NOT_ALLOWED, "method", message)
            }
            Self::BodyTooLarge => {
                too_large = format!("cannot be read; accepted: up to {BODY_MAX_BYTES} bytes");
                (StatusCode::PAYLOAD_TOO_LARGE, "body", &*too_large)
            }
            Self::BodyTimedOut => (StatusCode::REQUEST_TIMEOUT, "body", "took too long to arrive"),
        };
        let problem = Problem::new(Code::InvalidRequest, message).field(Some(field));
        let response = problem.status(status, GrpcCode::InvalidArgument).to_http();
        match self {
            Self::MethodNotAllowed(methods) => with(response.map(Bytes::from), ALLOW, methods),
            _ => response.map(Bytes::from),
        }
    }
}

fn with(mut response: Response, name: HeaderName, value: &'static str) -> Response {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}
