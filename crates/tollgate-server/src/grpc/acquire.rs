//! `Acquire`, the call that most clients make most of the time: answered before any router, with
//! the same bounds as every other call, and without a future of its own where the store never
//! waits.
//!
//! A request with anything unusual about it is answered by [`general`], or by the router, which
//! have the errors. So all answer the same.

use axum::body::Body;
use hyper::body::Bytes;
use hyper::http::request::Parts;
use hyper::{Request, Response};
use prost::Message as _;
use prost::encoding::decode_varint;
use tokio::time::Instant;
use tollgate::Cost;
use tollgate_proto::tollgate_v1 as pb;
use tollgate_service::api::BODY_MAX_BYTES;
use tollgate_service::auth::{Rights, Role, bearer};
use tollgate_service::engine::{CheckRequest, CheckResponse, Failure, RequestedCharge};
use tonic::Status;

use super::answer::Answer;
use super::body::Message;
use super::framing::only_message;
use super::{Requested, Services, batch, count_refusal, decode, is_encoded, status, write};
use crate::listen::Client;

pub(super) const PATH: &str = "/tollgate.v1.RateLimiter/Acquire";

/// What a client may do, if its request can be answered here. What is compressed, or not permitted,
/// is left to the router, which has an error for it.
pub(super) fn permit(services: &Services, client: &Client, parts: &Parts) -> Option<Rights> {
    let Parts { uri, headers, .. } = parts;
    if uri.path() != PATH || is_encoded(headers) || client.is_reserved() {
        return None;
    }
    let auth = services.app.auth();
    let rights = auth.permit(bearer(headers), Role::Caller).ok()?;
    auth.permit_site(Role::Caller, uri, headers).ok()?;
    Some(rights)
}

/// Answers a request, timed and traced.
pub(super) async fn answer<B: Requested>(
    services: &Services,
    client: &Client,
    rights: &Rights,
    (parts, body): (&Parts, &mut B),
) -> Response<Answer> {
    let telemetry = &services.app.telemetry;
    let Some(traces) = &telemetry.traces else {
        let start = Instant::now();
        let response = respond(services, client, rights, (parts, body)).await;
        telemetry.metrics.request("grpc", start.elapsed());
        return response;
    };
    let Parts { method, uri, headers, .. } = parts;
    let span = traces.begin_request("grpc", method, uri.path(), headers);
    let respond = respond(services, client, rights, (parts, body));
    Box::pin(telemetry.request("grpc", Some(span), respond)).await
}

async fn respond<B: Requested>(
    services: &Services,
    client: &Client,
    rights: &Rights,
    (parts, body): (&Parts, &mut B),
) -> Response<Answer> {
    let timeout = services.app.time_limits.request;
    // Counted until the request is answered.
    let incoming = client.incoming();
    let read = Message::new(body, BODY_MAX_BYTES, timeout, Some(&incoming)).whole().await;
    let decided = read.as_ref().ok().and_then(|body| decide(services, rights, body));
    let response = match (read, decided) {
        (_, Some(Ok(response))) => {
            return Answer::of_message(write::decision(&response)).into_response();
        }
        (_, Some(Err(failure))) => Answer::of_status(status::of(&failure)),
        (Err(status), None) => Answer::of_status(status),
        (Ok(body), None) => Box::pin(general(services, rights, parts, body)).await,
    };
    count_refusal(&services.app, &response);
    response
}

/// Decides an ordinary message without a future; `None` for any other, of which nothing was
/// charged.
fn decide(
    services: &Services,
    rights: &Rights,
    body: &Bytes,
) -> Option<Result<CheckResponse, Failure>> {
    let charge = ordinary(only_message(body)?)?;
    services.app.engine().acquire_now(&CheckRequest::one(charge).within(&rights.policies))
}

/// The charge of a message that has a policy, a key and a cost at most. What is not read here may
/// still be a message.
fn ordinary(mut message: &[u8]) -> Option<RequestedCharge<'_>> {
    let (mut policy, mut key, mut cost) = ("", "", None);
    while let Some((tag, rest)) = message.split_first() {
        message = rest;
        let number = decode_varint(&mut message).ok()?;
        match tag {
            0x0A | 0x12 => {
                let (bytes, rest) = message.split_at_checked(usize::try_from(number).ok()?)?;
                let text = std::str::from_utf8(bytes).ok()?;
                *(if *tag == 0x0A { &mut policy } else { &mut key }) = text;
                message = rest;
            }
            0x18 => cost = Some(number),
            _ => return None,
        }
    }
    let cost = cost.map_or(Some(Cost::ONE), |units| Cost::new(units).ok())?;
    Some(RequestedCharge::new(decode::policy(policy), key).cost(cost))
}

/// Answers a request whose body was read.
async fn general(
    services: &Services,
    rights: &Rights,
    parts: &Parts,
    body: Bytes,
) -> Response<Answer> {
    let Some(message) = only_message(&body) else {
        let mut parts = parts.clone();
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
        Ok(response) => Answer::of_message(write::decision(&response)).into_response(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a message asks for, by the generated type; an error is `None`.
    fn generated(message: &[u8]) -> Option<String> {
        let request = pb::AcquireRequest::decode(message).ok()?;
        let listed = decode::charges(&request.charges).ok()?;
        let check = decode::acquire(&request, &listed).ok()?;
        Some(format!("{check:?}"))
    }

    fn direct(message: &[u8]) -> Option<String> {
        Some(format!("{:?}", CheckRequest::one(ordinary(message)?)))
    }

    #[test]
    fn an_ordinary_message_is_read_as_by_the_generated_type() {
        let messages: [&[u8]; 8] = [
            b"",
            b"\x0a\x01p\x12\x01k",
            b"\x12\x01k\x0a\x01p\x18\x07",
            // The last of a field counts, also one that is empty.
            b"\x12\x01a\x12\x01b\x18\x01\x18\x02\x0a\x01p\x0a\x00",
            b"\x18\xff\xff\xff\xff\x0f\x12\x04\xf0\x9f\x98\x80",
            // Numbers that are longer than they have to be.
            b"\x12\x81\x00k\x18\x81\x80\x00",
            b"\x12\x00",
            b"\x0a\x03a\x00b\x12\x01k",
        ];
        for message in messages {
            let read = direct(message);
            assert!(read.is_some() && read == generated(message), "{:?}", message.escape_ascii());
        }
    }

    #[test]
    fn what_is_not_ordinary_is_left_to_the_generated_type() {
        let messages: [&[u8]; 22] = [
            b"\x0a",
            b"\x0a\x02p",
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01k",
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xffk",
            b"\x12\x01\xff",
            b"\x12\x01k\x18",
            b"\x12\x01k\x18\x00",
            b"\x12\x01k\x18\x80\x80\x80\x80\x10",
            b"\x12\x01k\x1a\x01\x01",
            b"\x10\x01",
            b"\x12\x01k\x22\x01i",
            b"\x12\x01k\x28\x00",
            b"\x12\x01k\x28\x01",
            b"\x32\x03\x12\x01k",
            b"\x12\x01k\x32\x03\x12\x01k",
            b"\x12\x01k\x38\x09",
            b"\x12\x01k\x18\x03\x38\x02",
            b"\x12\x01k\x40\x01",
            b"\x92\x00\x01k",
            b"\x12\x01k\x00\x00",
            b"\x12\x01k\x0b\x0c",
            b"\x12\x01k\x0d\x00\x00\x00\x00",
        ];
        for message in messages {
            assert_eq!(direct(message), None, "{:?}", message.escape_ascii());
        }
        // Some of them are right all the same.
        let accepted = messages.iter().filter(|message| generated(message).is_some()).count();
        assert_eq!(accepted, 7);
    }
}
