//! The gRPC interface: `tollgate.v1`, the compatible `ratelimit.v1`, health and reflection.

mod body;
mod health;
mod ratelimit;
mod status;
mod tollgate;

use std::sync::Arc;

use ::tollgate::{Code, Error, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use tokio::sync::watch;
use tollgate_proto::DESCRIPTORS;
use tollgate_proto::ratelimit_v1::rate_limiter_server as ratelimit_v1;
use tollgate_proto::tollgate_v1::rate_limiter_server as tollgate_v1;
use tollgate_service::api::{BODY_MAX_BYTES, BODY_TIMEOUT};
use tollgate_service::auth::{Role, bearer};
use tonic::service::Routes;

pub(crate) use self::health::Health;
use crate::app::App;
use crate::browsers::Hosts;

/// The method for administrators, and the service that needs no token.
const RESET: &str = "/tollgate.v1.RateLimiter/Reset";
const HEALTH: &str = "/grpc.health.v1.Health/";
/// The prefix of services whose requests are streams.
const REFLECTION: &str = "/grpc.reflection.";

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
    let record = middleware::from_fn(move |request, next| {
        recorded(Arc::clone(&recorder), bounded(request, &ends), next)
    });
    let guard = middleware::from_fn(move |request, next| guarded(Arc::clone(&app), request, next));
    let router = routes.into_axum_router().layer(record).layer(guard);
    Ok((router, Health::serving(reporter, end).await))
}

/// Bounds the body of a request: one message in size and time, a stream by the shutdown.
fn bounded(request: Request, ends: &watch::Receiver<()>) -> Request {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let body = if path.starts_with(REFLECTION) {
        Body::new(body::Stream::new(body, ends.clone()))
    } else {
        let max = if path.starts_with(HEALTH) { SMALL_MAX_BYTES } else { BODY_MAX_BYTES };
        Body::new(body::Message::new(body, max, BODY_TIMEOUT))
    };
    Request::from_parts(parts, body)
}

/// Answers a request within its span, and records how long it took.
async fn recorded(app: Arc<App>, request: Request, next: Next) -> Response {
    let span = app.telemetry.traces.as_ref().map(|traces| {
        traces.begin_request("grpc", request.method(), request.uri().path(), request.headers())
    });
    app.telemetry.request("grpc", span, next.run(request)).await
}

/// Accepts clients with the right to call the method. Health needs no right.
async fn guarded(app: Arc<App>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let needed = if path == RESET { Role::Admin } else { Role::Caller };
    if path.starts_with(HEALTH) {
        return next.run(request).await;
    }
    let headers = request.headers();
    let permitted = app.auth().permit(bearer(headers), needed).and_then(|()| {
        // No page can make a browser use its own name here: HTTP/2 without TLS is for programs.
        app.check_site(needed, &Hosts::Any, request.uri().authority(), headers)
    });
    match permitted {
        Ok(()) => next.run(request).await,
        Err(error) => status::of(&error.into()).into_http(),
    }
}
