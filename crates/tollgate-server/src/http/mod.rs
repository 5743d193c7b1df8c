//! The HTTP interface: JSON in and out, and a gate for proxies. Handlers decode, ask the engine,
//! encode.

mod decode;
mod gate;
mod handlers;
mod headers;
mod reply;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use tokio::time::Instant;
use tollgate::Error;

use crate::auth::{Auth, Role, bearer};
use crate::engine::Engine;
use crate::trace::traced;

/// The longest body accepted, in bytes: a full batch of the longest keys fits.
pub(crate) const BODY_MAX_BYTES: usize = 1024 * 1024;
/// How long a client may take to send its body.
pub(crate) const BODY_WITHIN: Duration = Duration::from_secs(10);

/// The description of this interface, for machines.
pub(crate) const OPENAPI: &str = include_str!("openapi.json");

/// The routes, as the OpenAPI document names them.
pub(crate) fn router(engine: Arc<Engine>, auth: &Auth) -> Router {
    let guard = |needed| {
        let auth = Arc::new(auth.clone());
        middleware::from_fn(move |request, next| guarded(Arc::clone(&auth), needed, request, next))
    };
    let admin = Router::new().route("/v1/reset", post(handlers::reset));
    let callers = Router::new()
        .route("/v1/acquire", post(handlers::acquire))
        .route("/v1/acquire_many", post(handlers::acquire_many))
        .route("/v1/peek", post(handlers::peek))
        .route("/v1/forecast", post(handlers::forecast))
        .route("/v1/refund", post(handlers::refund))
        .route("/v1/gate", get(gate::gate).post(gate::gate));
    let watched = Arc::clone(&engine);
    let time = middleware::from_fn(move |request, next| timed(Arc::clone(&watched), request, next));
    callers
        .layer(time)
        .route("/v1/limits", post(handlers::limits))
        .route("/metrics", get(handlers::metrics))
        .route_layer(guard(Role::Caller))
        .merge(admin.route_layer(guard(Role::Admin)))
        .route("/healthz", get(handlers::healthz))
        .route("/readyz", get(handlers::readyz))
        .route("/openapi.json", get(handlers::openapi))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(engine)
}

/// Lets through whoever may do what is needed here.
async fn guarded(auth: Arc<Auth>, needed: Role, request: Request, next: Next) -> Response {
    match auth.permit(bearer(request.headers()), needed) {
        Ok(()) => next.run(request).await,
        Err(error) => {
            let mut response = reply::failure(&error.into());
            let bearer = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
            response
        }
    }
}

/// How long requests for decisions take.
async fn timed(engine: Arc<Engine>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let response = traced(engine.traces(), "http", request, next).await;
    engine.metrics().request("http", start.elapsed());
    response
}

async fn unknown_path() -> Response {
    let error = Error::invalid("path", "is not known; see /openapi.json");
    reply::problem(&error.into(), StatusCode::NOT_FOUND)
}

async fn wrong_method() -> Response {
    let error = Error::invalid("method", "is not accepted here; see /openapi.json");
    reply::problem(&error.into(), StatusCode::METHOD_NOT_ALLOWED)
}
