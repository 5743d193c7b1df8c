//! The bodies of responses: one message, a stream of messages, or that of a service of the router.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use hyper::body::{Body as HttpBody, Bytes, Frame};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::mpsc;
use tonic::Status;
use tonic::metadata::GRPC_CONTENT_TYPE;

/// The code of success in trailers.
const OK: HeaderValue = HeaderValue::from_static("0");

/// The body of a response.
#[derive(Debug)]
pub(crate) enum Answer {
    /// One message, and then the status, which is success.
    Message(Option<Bytes>),
    /// Messages as they come, and the status at the end.
    Stream(mpsc::Receiver<Frame<Bytes>>),
    /// That of another service.
    Routed(Body),
    /// Nothing more.
    Ended,
}

impl Answer {
    /// The body of one message, with its prefix.
    pub(super) fn of_message(message: Vec<u8>) -> Self {
        Self::Message(Some(Bytes::from(message)))
    }

    /// The response with this body.
    pub(super) fn into_response(self) -> Response<Self> {
        let mut response = Response::new(self);
        *response.status_mut() = StatusCode::OK;
        response.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
        response
    }

    /// The response of a failure: headers alone.
    pub(super) fn of_status(status: Status) -> Response<Self> {
        status.into_http::<Body>().map(|_| Self::Ended)
    }
}

/// The status at the end of a stream that succeeded.
pub(super) fn success() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(Status::GRPC_STATUS, OK);
    trailers
}

/// The status at the end of a stream that failed.
pub(super) fn failed(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    // Its message and its details are text, which a header can hold.
    let _never = status.add_header(&mut trailers);
    trailers
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        match this {
            Self::Message(message) => Poll::Ready(Some(Ok(match message.take() {
                Some(message) => Frame::data(message),
                None => {
                    *this = Self::Ended;
                    Frame::trailers(success())
                }
            }))),
            Self::Stream(frames) => frames.poll_recv(context).map(|frame| frame.map(Ok)),
            Self::Routed(body) => Pin::new(body).poll_frame(context),
            Self::Ended => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Message(_) | Self::Stream(_) => false,
            Self::Routed(body) => body.is_end_stream(),
            Self::Ended => true,
        }
    }
}
