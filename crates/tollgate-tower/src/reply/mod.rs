//! Responses to refused requests, over HTTP and over gRPC.

mod body;

use bytes::Bytes;
use http::{Response, StatusCode};
use tollgate::{Code, Decision, Error};
use tollgate_http::{GrpcCode, Problem, Status};

use crate::extract::{Trouble, Unkeyed};
use crate::head::Head;

pub use body::ReplyBody;

/// Why a request is refused.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Refusal<'a> {
    /// A limit denies it: by its quota, or because the store is out and its mode is closed.
    Denied {
        /// The decision.
        decision: &'a Decision,
        /// The names of the limits that deny it.
        violated: Vec<&'a str>,
    },
    /// No decision could be made.
    Undecided(&'a Error),
    /// It could not be charged to anybody.
    Unkeyed(&'a Unkeyed),
}

impl Refusal<'_> {
    fn problem(&self) -> Problem<'_> {
        match self {
            Self::Denied { decision, violated } => Problem::denied(decision, violated),
            // Clients of the service do not read what is wrong inside of it.
            Self::Undecided(error) if Status::of(error.code()).http.is_server_error() => {
                let detail = format!("the limit could not be checked: {}", error.code());
                Problem::new(error.code(), detail).field(error.field())
            }
            Self::Undecided(error) => Problem::from(*error),
            Self::Unkeyed(unkeyed) if unkeyed.trouble == Trouble::NotProvided => {
                let field = &unkeyed.field;
                let detail = format!("the limit could not be checked: {field} is not provided");
                Problem::new(Code::ConfigInvalid, detail)
                    .status(StatusCode::INTERNAL_SERVER_ERROR, GrpcCode::Internal)
                    .field(Some(field))
            }
            Self::Unkeyed(unkeyed) => {
                Problem::new(Code::InvalidRequest, unkeyed.to_string()).field(Some(&unkeyed.field))
            }
        }
    }
}

/// How a client wants its refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Http,
    Grpc,
}

impl Wire {
    pub(crate) fn of(head: &Head<'_>) -> Self {
        if head.is_grpc() { Self::Grpc } else { Self::Http }
    }
}

/// The response to a refused request.
pub(crate) fn response(refusal: &Refusal<'_>, wire: Wire) -> Response<Bytes> {
    let problem = refusal.problem();
    let response = match wire {
        Wire::Http => problem.to_http(),
        Wire::Grpc => problem.to_grpc(),
    };
    response.map(Bytes::from)
}
