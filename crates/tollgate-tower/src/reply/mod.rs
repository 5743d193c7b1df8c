//! What a refused client is told: one place for every refusal, over HTTP and over gRPC.

mod body;
mod grpc;
mod problem;
mod status;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use tollgate::{Decision, Error};

use crate::extract::Unkeyed;
use crate::head::Head;

pub use body::ReplyBody;

use status::Status;

const MS_PER_S: u64 = 1_000;
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

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
    let status = Status::of(refusal);
    let mut response = match wire {
        Wire::Http => problem::response(refusal, &status),
        Wire::Grpc => grpc::response(refusal, &status),
    };
    let headers = response.headers_mut();
    if let Some(wait_ms) = status.retry_after_ms {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(wait_ms.div_ceil(MS_PER_S)));
    }
    // RFC 6585: a 429 must not be stored; nor should any other refusal be.
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    response
}

fn with_headers(body: Bytes, status: http::StatusCode, headers: HeaderMap) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
