//! The gRPC interface: `tollgate.v1`, the compatible `ratelimit.v1`, health and reflection.

mod batch;
mod body;
mod decode;
mod encode;
mod health;
mod ratelimit;
mod status;
mod tollgate;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ::tollgate::{Code, Error, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Uri;
use axum::middleware::{self, Next};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::sync::watch;
use tollgate_proto::DESCRIPTORS;
use tollgate_proto::ratelimit_v1::rate_limiter_server as ratelimit_v1;
use tollgate_proto::tollgate_v1::rate_limiter_server as tollgate_v1;
use tollgate_service::api::BODY_MAX_BYTES;
use tollgate_service::auth::{Role, bearer};
use tonic::Status;
use tonic::service::Routes;

pub(crate) use self::health::Health;
use crate::app::App;
use crate::http::FULL;
use crate::listen::{Client, Held, Reply};

/// The method for administrators, and the service that needs no token.
const RESET: &str = "/tollgate.v1.RateLimiter/Reset";
const HEALTH: &str = "/grpc.health.v1.Health/";
/// Its method that answers for as long as the client listens.
const WATCH: &str = "/grpc.health.v1.Health/Watch";
/// What prost reports about a message that cannot be decoded.
const MALFORMED: &str = "failed to decode Protobuf message";
/// The prefix of services whose requests are streams.
const REFLECTION: &str = "/grpc.reflection.";

/// The service for callers of an earlier one, and names that it may have there: its documents give
/// the service a name, and no package.
const COMPATIBLE: &str = "/ratelimit.v1.RateLimiter/";
const OTHER_NAMES: [&str; 2] = ["/ratelimit.RateLimiter/", "/RateLimiter/"];

/// The longest message to services that do not decide, in bytes: it holds a name.
const SMALL_MAX_BYTES: usize = 4 * 1024;

/// All services as one router, and their health.
pub(crate) async fn router(app: Arc<App>) -> Result<(Router, Health)> {
    let (reporter, health_service) = tonic_health::server::health_reporter();
    let health_service = health_service.max_decoding_message_size(SMALL_MAX_BYTES);
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let invalid = |error| Error::new(Code::ConfigInvalid, format!("reflection: {error}"));
    let current = reflection().build_v1().map_err(invalid)?;
    let current = current.max_decoding_message_size(SMALL_MAX_BYTES);
    // Many clients still use this version, such as the one for Python.
    let earlier = reflection().build_v1alpha().map_err(invalid)?;
    let earlier = earlier.max_decoding_message_size(SMALL_MAX_BYTES);
    let native = tollgate_v1::RateLimiterServer::new(tollgate::Native(Arc::clone(&app)))
        .max_decoding_message_size(BODY_MAX_BYTES);
    let compatible = ratelimit_v1::RateLimiterServer::new(ratelimit::Compatible(Arc::clone(&app)))
        .max_decoding_message_size(BODY_MAX_BYTES);
    let routes = Routes::new(health_service)
        .add_service(current)
        .add_service(earlier)
        .add_service(native)
        .add_service(compatible);
    let (end, ends) = watch::channel(());
    let recorder = Arc::clone(&app);
    let limit = app.time_limits.request;
    let record = middleware::from_fn(move |request, next| {
        recorded(Arc::clone(&recorder), bounded(request, limit, &ends), next)
    });
    let guard = middleware::from_fn(move |request, next| guarded(Arc::clone(&app), request, next));
    let router = routes.into_axum_router().layer(record).layer(guard);
    Ok((router, Health::serving(reporter, end).await))
}

/// Answers a request of a client. It is under way until the client has taken the reply.
pub(crate) async fn answer(
    router: Router,
    client: Arc<Client>,
    mut request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Reply<Body>>, Infallible> {
    use_known_name(&mut request);
    let path = request.uri().path();
    let is_health = path.starts_with(HEALTH);
    let is_stream = path == WATCH || path.starts_with(REFLECTION);
    let refused = |why| {
        let status = status::of(&Error::new(Code::QueueFull, why).into());
        Ok(status.into_http().map(|body| Reply::new(body, client.begin(), None)))
    };
    if client.is_reserved() && (is_stream || !is_health) {
        client.request_seen();
        return refused(FULL);
    }
    let stream = is_stream.then(|| client.begin_stream());
    client.request_seen();
    let under_way = match stream {
        None => client.begin(),
        Some(Some(stream)) => stream,
        Some(None) => return refused("too many streams, of this connection or of all"),
    };
    // Counted until the request is answered: it may wait for those before it.
    let incoming = Arc::new(client.incoming());
    request.extensions_mut().insert(Arc::clone(&incoming));
    request.extensions_mut().insert(Arc::clone(&client));
    let mut response = TowerToHyperService::new(router).call(request).await?;
    drop(incoming);
    let elements = response.extensions_mut().remove::<Held>();
    Ok(response.map(|body| Reply::new(body, under_way, elements)))
}

/// Gives a request to a service by another name the name that is served, before anything looks at
/// its path.
fn use_known_name<B>(request: &mut hyper::Request<B>) {
    let path = request.uri().path();
    let method = OTHER_NAMES.iter().find_map(|other| path.strip_prefix(other));
    let Some(method) = method else { return };
    let mut parts = request.uri().clone().into_parts();
    // A path with another prefix that is valid too stays a path.
    parts.path_and_query = format!("{COMPATIBLE}{method}").parse().ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}

/// Bounds the body of a request: one message in size and time, a stream by the shutdown.
fn bounded(request: Request, limit: Duration, ends: &watch::Receiver<()>) -> Request {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let incoming = parts.extensions.get().map(Arc::clone);
    let body = if path.starts_with(REFLECTION) {
        Body::new(body::Stream::new(body, ends.clone()))
    } else {
        let max = if path.starts_with(HEALTH) { SMALL_MAX_BYTES } else { BODY_MAX_BYTES };
        Body::new(body::Message::new(body, max, limit, incoming))
    };
    Request::from_parts(parts, body)
}

/// Answers a request within its span, and records how long it took.
async fn recorded(app: Arc<App>, request: Request, next: Next) -> Response {
    let span = app.telemetry.traces.as_ref().map(|traces| {
        traces.begin_request("grpc", request.method(), request.uri().path(), request.headers())
    });
    let respond = async {
        match batch::bounded(request).await {
            Ok(request) => next.run(request).await,
            Err(status) => status.into_http(),
        }
    };
    app.telemetry.request("grpc", span, respond).await
}

/// A message that cannot be decoded is an error of the client, and none of the server.
fn by_cause(response: Response) -> Response {
    match Status::from_header_map(response.headers()) {
        Some(status)
            if status.code() == tonic::Code::Internal && status.message().contains(MALFORMED) =>
        {
            Status::invalid_argument(status.message()).into_http()
        }
        _ => response,
    }
}

/// Accepts clients with the right to call the method. Health needs no right.
async fn guarded(app: Arc<App>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let needed = if path == RESET { Role::Admin } else { Role::Caller };
    let client = request.extensions().get::<Arc<Client>>().map(Arc::clone);
    let note_valid = |has_role| {
        if let Some(client) = &client {
            app.note_valid(client, has_role);
        }
    };
    if path.starts_with(HEALTH) {
        note_valid(false);
        return next.run(request).await;
    }
    let headers = request.headers();
    let auth = app.auth();
    let permitted = auth.permit(bearer(headers), needed).and_then(|rights| {
        // No page can make a browser use its own name here: HTTP/2 without TLS is for programs.
        auth.permit_site(needed, request.uri(), headers).map(|()| rights)
    });
    drop(auth);
    let response = match permitted {
        Ok(rights) => {
            note_valid(true);
            request.extensions_mut().insert(rights);
            by_cause(next.run(request).await)
        }
        Err(error) => status::of(&error.into()).into_http(),
    };
    if let Some(code) = refusal(&response) {
        app.refused("grpc", code);
        if let (Code::Unauthorized, Some(client)) = (code, &client) {
            app.authentication_failed("grpc", client).await;
        }
    }
    response
}

/// The code of a failure that is the fault of the client.
fn refusal(response: &Response) -> Option<Code> {
    // A reply with a message has its status at the end, and is none.
    let status = response.headers().get(Status::GRPC_STATUS)?;
    match tonic::Code::from_bytes(status.as_bytes()) {
        tonic::Code::Unauthenticated => Some(Code::Unauthorized),
        tonic::Code::PermissionDenied => Some(Code::Forbidden),
        tonic::Code::InvalidArgument => Some(Code::InvalidRequest),
        tonic::Code::NotFound => Some(Code::UnknownPolicy),
        tonic::Code::AlreadyExists => Some(Code::IdempotencyConflict),
        tonic::Code::Unimplemented => Some(Code::Unsupported),
        _ => None,
    }
}
