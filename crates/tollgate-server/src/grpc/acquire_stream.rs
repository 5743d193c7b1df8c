//! `AcquireStream`: requests as they come, and their outcomes in the same order.
//!
//! The requests that have arrived are decided together, and their outcomes are sent together, so
//! that a request costs little more than its decision. While the client takes no outcomes, none of
//! its requests are read, and the window of HTTP/2 holds it back.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use axum::body::Body;
use bytes::BytesMut;
use hyper::body::{Bytes, Frame};
use hyper::http::request::Parts;
use hyper::{Request, Response};
use opentelemetry::context::FutureExt;
use prost::Message as _;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tollgate_proto::tollgate_v1 as pb;
use tollgate_service::Auth;
use tollgate_service::auth::Rights;
use tollgate_service::engine::{CheckRequest, CheckResponse, Failure};
use tonic::Status;

use super::answer::{Answer, failed, success};
use super::framing::{Unreadable, next_message};
use super::write;
use super::{Requested, Services, batch, decode, is_encoded, permit};
use crate::app::App;
use crate::listen::Client;
use crate::telemetry;

pub(super) const PATH: &str = "/tollgate.v1.RateLimiter/AcquireStream";

/// The longest message, in bytes: as many charges as a request may have, of the longest keys.
const MESSAGE_MAX_BYTES: usize = 64 * 1024;
/// After this many requests others on the same thread have a turn.
const REQUESTS_PER_TURN: usize = 64;

/// A request, or why it is none.
type Element = Result<pb::AcquireRequest, Failure>;

/// A stream of requests, and where their outcomes go.
struct AcquireStream<B> {
    app: Arc<App>,
    client: Arc<Client>,
    /// The tokens by which the rights were found.
    auth: Arc<Auth>,
    rights: Rights,
    parts: Parts,
    body: B,
    input: BytesMut,
    output: mpsc::Sender<Frame<Bytes>>,
    /// Ends with the server.
    end: watch::Receiver<()>,
}

/// What a body has to read.
enum Read {
    Data(Bytes),
    /// Nothing now.
    Nothing,
    End,
}

/// Begins to answer the requests of a stream, which lasts as long as the response.
pub(super) async fn answer<B: Requested>(
    services: &Services,
    client: &Arc<Client>,
    request: Request<B>,
) -> Response<Answer> {
    let (parts, body) = request.into_parts();
    let auth = Arc::clone(&services.app.auth());
    let rights = match permit(&services.app, client, &parts).await {
        Ok(rights) => rights,
        Err(status) => return Answer::of_status(status),
    };
    if is_encoded(&parts.headers) {
        // The router has the error of an encoding that is not supported.
        return services.route(Request::from_parts(parts, Body::empty())).await;
    }
    let (output, frames) = mpsc::channel(1);
    let stream = AcquireStream {
        app: Arc::clone(&services.app),
        client: Arc::clone(client),
        auth,
        rights,
        parts,
        body,
        input: BytesMut::new(),
        output,
        end: services.ends.clone(),
    };
    tokio::spawn(stream.run());
    Answer::Stream(frames).into_response()
}

impl<B: Requested> AcquireStream<B> {
    /// Answers until the client ends the stream, or the server.
    async fn run(mut self) {
        let trailers = match self.answer_all().await {
            Ok(()) => success(),
            Err(status) => failed(&status),
        };
        self.send(Frame::trailers(trailers)).await;
    }

    async fn answer_all(&mut self) -> Result<(), Status> {
        loop {
            if self.end.has_changed().is_err() {
                return Err(shut_down());
            }
            let mut requests = Vec::new();
            let end = self.take(&mut requests).await;
            self.find_rights().await?;
            if !requests.is_empty() && !self.answer(&requests).await {
                // The client has left.
                return Ok(());
            }
            if let Some(end) = end {
                return end;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Finds the rights anew after a reload: a token that is not in force any more gives none.
    async fn find_rights(&mut self) -> Result<(), Status> {
        if !Arc::ptr_eq(&self.auth, &self.app.auth()) {
            self.auth = Arc::clone(&self.app.auth());
            self.rights = permit(&self.app, &self.client, &self.parts).await?;
        }
        Ok(())
    }

    /// Takes the requests that have arrived, and waits for the first of them; how the stream ends,
    /// if it does after them.
    async fn take(&mut self, requests: &mut Vec<Element>) -> Option<Result<(), Status>> {
        while requests.len() < REQUESTS_PER_TURN {
            match next_message(&mut self.input, MESSAGE_MAX_BYTES) {
                Ok(Some(message)) => match read_request(&message) {
                    Ok(request) => requests.push(request),
                    Err(status) => return Some(Err(status)),
                },
                Ok(None) => match self.read(requests.is_empty()).await {
                    Ok(Read::Data(data)) => self.input.extend_from_slice(&data),
                    Ok(Read::Nothing) => return None,
                    Ok(Read::End) if self.input.is_empty() => return Some(Ok(())),
                    Ok(Read::End) => {
                        let status = Status::invalid_argument("the last message is incomplete");
                        return Some(Err(status));
                    }
                    Err(status) => return Some(Err(status)),
                },
                Err(unreadable) => return Some(Err(refused(&unreadable))),
            }
        }
        None
    }

    /// Reads what has arrived, or waits for it.
    async fn read(&mut self, waits: bool) -> Result<Read, Status> {
        let body = &mut self.body;
        let next = poll_fn(|context| match Pin::new(&mut *body).poll_frame(context) {
            Poll::Pending if !waits => Poll::Ready(Ok(Read::Nothing)),
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => Poll::Ready(Ok(Read::End)),
            // Trailers of a client mean nothing.
            Poll::Ready(Some(Ok(frame))) => {
                Poll::Ready(Ok(Read::Data(frame.into_data().unwrap_or_default())))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Err(Status::from_error(error.into()))),
        });
        tokio::select! {
            biased;
            read = next => read,
            () = ended(&mut self.end) => Err(shut_down()),
        }
    }

    /// Decides requests, and sends their outcomes; `false` when the client has left.
    async fn answer(&mut self, requests: &[Element]) -> bool {
        let under_way = self.client.begin();
        let start = Instant::now();
        let app = Arc::clone(&self.app);
        let Parts { method, uri, headers, .. } = &self.parts;
        let traces = app.telemetry.traces.as_ref();
        let span = traces.map(|it| it.begin_request("grpc", method, uri.path(), headers));
        let outcomes = match span {
            None => self.decide(requests).await,
            Some(span) => {
                let outcomes = self.decide(requests).with_context(span.clone()).await;
                telemetry::end(&span, None);
                outcomes
            }
        };
        app.telemetry.metrics.request("grpc", start.elapsed());
        drop(under_way);
        self.send(Frame::data(outcomes)).await
    }

    async fn decide(&mut self, requests: &[Element]) -> Bytes {
        let listed: Vec<_> = requests
            .iter()
            .map(|request| match request {
                Ok(request) => decode::charges(&request.charges),
                Err(failure) => Err(failure.clone()),
            })
            .collect();
        let checks =
            requests.iter().zip(&listed).map(|(request, listed)| match (request, listed) {
                (Ok(request), Ok(listed)) => decode::acquire(request, listed)
                    .map(|check| check.within(&self.rights.policies)),
                (Err(failure), _) | (_, Err(failure)) => Err(failure.clone()),
            });
        let checks: Vec<Result<CheckRequest<'_>, Failure>> = checks.collect();
        let results: Vec<Result<CheckResponse, Failure>> =
            self.app.engine().acquire_each(checks).await;
        self.app.refused_elements("grpc", &results);
        let mut output = Vec::new();
        results.iter().for_each(|result| write::outcome(result, &mut output));
        Bytes::from(output)
    }

    /// Sends a frame once the client has taken those before it; `false` when it has left, or the
    /// server ends.
    async fn send(&mut self, frame: Frame<Bytes>) -> bool {
        let sent = self.output.reserve();
        tokio::select! {
            biased;
            permit = sent => permit.map(|permit| permit.send(frame)).is_ok(),
            () = ended(&mut self.end) => false,
        }
    }
}

/// Decodes a request; one with too many charges is not, because it would take too much memory.
fn read_request(message: &[u8]) -> Result<Element, Status> {
    if let Err(failure) = batch::check_charges(message) {
        return Ok(Err(failure));
    }
    match pb::AcquireRequest::decode(message) {
        Ok(request) => Ok(Ok(request)),
        Err(error) => Err(Status::invalid_argument(error.to_string())),
    }
}

fn refused(unreadable: &Unreadable) -> Status {
    match unreadable {
        Unreadable::Compressed => Status::unimplemented("messages are not compressed here"),
        Unreadable::Long(bytes) => {
            let accepted = format!("a message has {bytes} bytes; accepted: {MESSAGE_MAX_BYTES}");
            Status::out_of_range(accepted)
        }
    }
}

fn shut_down() -> Status {
    Status::unavailable("the server ends; requests without an outcome were not decided")
}

/// Completes when the server ends.
async fn ended(end: &mut watch::Receiver<()>) {
    while end.changed().await.is_ok() {}
}
