//! Responses to refused requests, over HTTP and over gRPC.

mod body;

use bytes::Bytes;
use http::{Response, StatusCode};
use tollgate::{Code, Decision, Error};
use tollgate_http::{GrpcCode, Problem, Status};

use crate::extract::{ExtractError, ExtractErrorKind};
use crate::request_parts::RequestParts;

pub use body::{BodyGuard, Guarded, ResponseBody};

/// The reason why a request is refused.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Refusal<'a> {
    /// A limit denies it: by its quota, or because the store is out and its outage mode is closed.
    Denied {
        /// The decision.
        decision: &'a Decision,
        /// The names of the limits that deny it.
        violated: Vec<&'a str>,
    },
    /// No decision could be made.
    Undecided(&'a Error),
    /// The request has no subject to charge.
    NoSubject(&'a ExtractError),
}

impl Refusal<'_> {
    fn problem(&self) -> Problem<'_> {
        match self {
            Self::Denied { decision, violated } => Problem::denied(decision, violated),
            // Messages about the inside of a service are not for its clients.
            Self::Undecided(error) if Status::of(error.code()).http.is_server_error() => {
                let detail = format!("the limit could not be checked: {}", error.code());
                Problem::new(error.code(), detail).field(error.field())
            }
            Self::Undecided(error) => Problem::from(*error),
            Self::NoSubject(error) if error.kind == ExtractErrorKind::NotProvided => {
                let field = &error.field;
                let detail = format!("the limit could not be checked: {field} is not provided");
                Problem::new(Code::ConfigInvalid, detail)
                    .status(StatusCode::INTERNAL_SERVER_ERROR, GrpcCode::Internal)
                    .field(Some(field))
            }
            Self::NoSubject(error) => {
                Problem::new(Code::InvalidRequest, error.to_string()).field(Some(&error.field))
            }
        }
    }
}

/// The protocol of a request, and of the response to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Grpc,
}

impl Protocol {
    pub(crate) fn of(request: &RequestParts<'_>) -> Self {
        if request.is_grpc() { Self::Grpc } else { Self::Http }
    }
}

/// The response to a refused request.
pub(crate) fn response(refusal: &Refusal<'_>, protocol: Protocol) -> Response<Bytes> {
    let problem = refusal.problem();
    let response = match protocol {
        Protocol::Http => problem.to_http(),
        Protocol::Grpc => problem.to_grpc(),
    };
    response.map(Bytes::from)
}
