//! The gRPC interface: `tollgate.v1`, the compatible `ratelimit.v1`, health and reflection.

mod acquire;
mod acquire_stream;
mod answer;
mod batch;
mod body;
mod decode;
mod encode;
mod framing;
mod health;
mod ratelimit;
mod status;
mod tollgate;
mod write;

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
use hyper::body::{Body as HttpBody, Bytes};
use hyper::header::HeaderMap;
use hyper::http::request::Parts;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::sync::watch;
use tollgate_proto::DESCRIPTORS;
use tollgate_proto::ratelimit_v1::rate_limiter_server as ratelimit_v1;
use tollgate_proto::tollgate_v1::rate_limiter_server as tollgate_v1;
use tollgate_service::api::BODY_MAX_BYTES;
use tollgate_service::auth::{Rights, Role, bearer};
use tonic::Status;
use tonic::service::Routes;

pub(crate) use self::answer::Answer;
pub(crate) use self::health::Health;
use crate::app::App;
use crate::http::FULL;
use crate::listen::{Client, Held, IncomingBytes, Reply};

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

/// The body of a request: that of a connection, or of a test.
pub(crate) trait Requested:
    HttpBody<Data = Bytes, Error: Into<tonic::codegen::StdError> + Send> + Send + Unpin + 'static
{
}

impl<B> Requested for B where
    B: HttpBody<Data = Bytes, Error: Into<tonic::codegen::StdError> + Send>
        + Send
        + Unpin
        + 'static
{
}

/// The services, and what they share.
#[derive(Debug)]
pub(crate) struct Services {
    app: Arc<App>,
    /// All of them, with the bounds on every request.
    router: Router,
    /// All of them, for requests within the bounds.
    routes: Router,
    /// Streams end when its sender is dropped.
    ends: watch::Receiver<()>,
}

/// What the requests of a connection share. Counted for each connection: threads that counted the
/// same references with every request would wait for each other.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) services: Arc<Services>,
    pub(crate) client: Arc<Client>,
}

/// All services, and their health.
pub(crate) async fn services(app: Arc<App>) -> Result<(Arc<Services>, Health)> {
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
        .add_service(compatible)
        .into_axum_router();
    let (end, ends) = watch::channel(());
    let router = bounded_routes(&app, routes.clone(), ends.clone());
    let services = Services { app, router, routes, ends };
    Ok((Arc::new(services), Health::serving(reporter, end).await))
}

/// Adds what every request goes through: the right to make it, its bounds, its record.
fn bounded_routes(app: &Arc<App>, routes: Router, ends: watch::Receiver<()>) -> Router {
    let (recorder, guardian) = (Arc::clone(app), Arc::clone(app));
    let limit = app.time_limits.request;
    let record = middleware::from_fn(move |request, next| {
        recorded(Arc::clone(&recorder), bounded(request, limit, &ends), next)
    });
    let guard =
        middleware::from_fn(move |request, next| guarded(Arc::clone(&guardian), request, next));
    routes.layer(record).layer(guard)
}

impl Services {
    /// Has the router answer a request that is within the bounds.
    async fn route(&self, request: Request) -> hyper::Response<Answer> {
        let response = TowerToHyperService::new(self.routes.clone()).call(request).await;
        let response = response.unwrap_or_else(|never| match never {});
        by_cause(response).map(Answer::Routed)
    }
}

/// Answers a request of a client. It is under way until the client has taken the reply.
///
/// Each request is a task, and its future is copied into it: so that of a request which is not
/// `Acquire` is in a box, and what the other needs is borrowed from where it is.
pub(crate) fn answer<B: Requested>(
    served: &Arc<Served>,
    request: hyper::Request<B>,
) -> impl Future<Output = Result<hyper::Response<Reply<Answer>>, Infallible>> + Send + use<B> {
    let served = Arc::clone(served);
    let (parts, mut body) = request.into_parts();
    let rights = acquire::permit(&served.services, &served.client, &parts);
    async move {
        let Served { services, client } = &*served;
        let Some(rights) = rights else {
            let request = hyper::Request::from_parts(parts, body);
            return Ok(Box::pin(answer_any(services, client, request)).await);
        };
        client.request_seen();
        let under_way = client.begin();
        services.app.note_valid(client, true);
        let answer = acquire::answer(services, client, &rights, (&parts, &mut body)).await;
        Ok(answer.map(|body| Reply::new(body, under_way, None)))
    }
}

/// Answers a request of any method.
async fn answer_any<B: Requested>(
    services: &Services,
    client: &Arc<Client>,
    mut request: hyper::Request<B>,
) -> hyper::Response<Reply<Answer>> {
    use_known_name(&mut request);
    let path = request.uri().path();
    let is_health = path.starts_with(HEALTH);
    let decides = path == acquire_stream::PATH;
    let is_stream = decides || path == WATCH || path.starts_with(REFLECTION);
    let refused = |why| {
        let status = status::of(&Error::new(Code::QueueFull, why).into());
        Answer::of_status(status).map(|body| Reply::new(body, client.begin(), None))
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
    let response = if decides {
        acquire_stream::answer(services, client, request).await
    } else {
        let (response, elements) = routed(services, client, request).await;
        if !is_health {
            count_refusal(&services.app, &response);
        }
        return response.map(|body| Reply::new(body, under_way, elements));
    };
    count_refusal(&services.app, &response);
    response.map(|body| Reply::new(body, under_way, None))
}

/// The answer of the router, and the elements of a batch.
async fn routed<B: Requested>(
    services: &Services,
    client: &Arc<Client>,
    mut request: hyper::Request<B>,
) -> (hyper::Response<Answer>, Option<Held>) {
    // Counted until the request is answered: it may wait for those before it.
    let incoming = Arc::new(client.incoming());
    request.extensions_mut().insert(Arc::clone(&incoming));
    request.extensions_mut().insert(Arc::clone(client));
    let response = TowerToHyperService::new(services.router.clone()).call(request).await;
    let mut response = response.unwrap_or_else(|never| match never {});
    drop(incoming);
    let elements = response.extensions_mut().remove::<Held>();
    (response.map(Answer::Routed), elements)
}

/// Whether messages are in an encoding. None is supported.
fn is_encoded(headers: &HeaderMap) -> bool {
    headers.get("grpc-encoding").is_some_and(|encoding| encoding != "identity")
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
    let incoming: Option<Arc<IncomingBytes>> = parts.extensions.get().map(Arc::clone);
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
async fn guarded(app: Arc<App>, request: Request, next: Next) -> Response {
    let client = request.extensions().get::<Arc<Client>>().map(Arc::clone);
    let Some(client) = client else {
        return Status::internal("the request has no client").into_http();
    };
    if request.uri().path().starts_with(HEALTH) {
        app.note_valid(&client, false);
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    match permit(&app, &client, &parts).await {
        Ok(rights) => {
            let mut request = Request::from_parts(parts, body);
            request.extensions_mut().insert(rights);
            by_cause(next.run(request).await)
        }
        Err(status) => status.into_http(),
    }
}

/// What a client may do, if it has the right to call a method.
///
/// # Errors
/// `unauthorized` or `forbidden`.
async fn permit(app: &App, client: &Client, parts: &Parts) -> Result<Rights, Status> {
    let Parts { uri, headers, .. } = parts;
    let needed = if uri.path() == RESET { Role::Admin } else { Role::Caller };
    let auth = app.auth();
    let permitted = auth.permit(bearer(headers), needed).and_then(|rights| {
        // No page can make a browser use its own name here: HTTP/2 without TLS is for programs.
        auth.permit_site(needed, uri, headers).map(|()| rights)
    });
    drop(auth);
    match permitted {
        Ok(rights) => {
            app.note_valid(client, true);
            Ok(rights)
        }
        Err(error) => {
            if error.code() == Code::Unauthorized {
                app.authentication_failed("grpc", client).await;
            }
            Err(status::of(&error.into()))
        }
    }
}

/// Counts a failure that is the fault of the client.
fn count_refusal(app: &App, response: &hyper::Response<Answer>) {
    if let Some(code) = refusal(response.headers()) {
        app.refused("grpc", code);
    }
}

/// The code of a failure that is the fault of the client.
fn refusal(headers: &HeaderMap) -> Option<Code> {
    // A reply with a message has its status at the end, and is none.
    let status = headers.get(Status::GRPC_STATUS)?;
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
