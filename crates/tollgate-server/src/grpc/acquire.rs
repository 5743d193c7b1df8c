//! `Acquire`, the call that most clients make most of the time: answered before any router, with
//! the same bounds as every other call.

use std::sync::Arc;

use axum::body::Body;
use bytes::BytesMut;
use hyper::http::request::Parts;
use hyper::{Request, Response};
use prost::Message as _;
use tollgate_proto::tollgate_v1 as pb;
use tollgate_service::api::BODY_MAX_BYTES;
use tollgate_service::auth::Rights;
use tollgate_service::engine::{CheckResponse, Failure};
use tonic::Status;

use super::answer::Answer;
use super::body::{self, Message};
use super::framing::{only_message, put_message};
use super::write::Writer;
use super::{Requested, Services, batch, decode, is_encoded, permit, status};
use crate::listen::Client;

pub(super) const PATH: &str = "/tollgate.v1.RateLimiter/Acquire";

/// Whether a request can be answered here. What is compressed, or is not exactly one message, is
/// left to the router, which has an error for it.
pub(super) fn accepts<B>(request: &Request<B>) -> bool {
    request.uri().path() == PATH && !is_encoded(request.headers())
}

/// Answers a request.
pub(super) async fn answer<B: Requested>(
    services: &Services,
    client: &Arc<Client>,
    request: Request<B>,
) -> Response<Answer> {
    let (parts, body) = request.into_parts();
    let rights = match permit(&services.app, client, &parts).await {
        Ok(rights) => rights,
        Err(status) => return Answer::of_status(status),
    };
    let span = services.app.telemetry.traces.as_ref().map(|traces| {
        traces.begin_request("grpc", &parts.method, parts.uri.path(), &parts.headers)
    });
    let respond = respond(services, (client, &rights), parts, body);
    services.app.telemetry.request("grpc", span, respond).await
}

async fn respond<B: Requested>(
    services: &Services,
    (client, rights): (&Arc<Client>, &Rights),
    mut parts: Parts,
    body: B,
) -> Response<Answer> {
    let timeout = services.app.time_limits.request;
    // Counted until the request is answered.
    let incoming = Arc::new(client.incoming());
    let body = Message::new(body, BODY_MAX_BYTES, timeout, Some(incoming));
    let body = match body::whole(body).await {
        Ok(body) => body,
        Err(status) => return Answer::of_status(status),
    };
    let Some(message) = only_message(&body) else {
        parts.extensions.insert(rights.clone());
        return services.route(Request::from_parts(parts, Body::from(body))).await;
    };
    if let Err(failure) = batch::check_charges(message) {
        return Answer::of_status(status::of(&failure));
    }
    // A message that cannot be decoded is an error of the client, and none of the server.
    let request = pb::AcquireRequest::decode(message)
        .map_err(|error| Status::invalid_argument(error.to_string()));
    let request = match request {
        Ok(request) => request,
        Err(status) => return Answer::of_status(status),
    };
    match acquire(services, rights, &request).await {
        Ok(response) => {
            let mut message = BytesMut::new();
            put_message(&[Writer::default().decision(&response)], &mut message);
            Answer::Message(Some(message.freeze())).into_response()
        }
        Err(failure) => Answer::of_status(status::of(&failure)),
    }
}

async fn acquire(
    services: &Services,
    rights: &Rights,
    request: &pb::AcquireRequest,
) -> Result<CheckResponse, Failure> {
    let listed = decode::charges(&request.charges)?;
    let check = decode::acquire(request, &listed)?.within(&rights.policies);
    services.app.engine().acquire(check).await
}
