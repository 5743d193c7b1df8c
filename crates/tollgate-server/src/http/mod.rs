//! The HTTP interface: JSON in and out, and a gate for proxies. Handlers decode, ask the engine,
//! encode.

mod decode;
mod gate;
mod handlers;
mod headers;
mod reply;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use tollgate::Error;

use crate::engine::Engine;

/// The longest body accepted, in bytes: a full batch of the longest keys fits.
pub(crate) const BODY_MAX_BYTES: usize = 1024 * 1024;

/// The routes, as the OpenAPI document names them.
pub(crate) fn router(engine: Arc<Engine>) -> Router {
    Router::new()
        .route("/v1/acquire", post(handlers::acquire))
        .route("/v1/acquire_many", post(handlers::acquire_many))
        .route("/v1/peek", post(handlers::peek))
        .route("/v1/forecast", post(handlers::forecast))
        .route("/v1/refund", post(handlers::refund))
        .route("/v1/reset", post(handlers::reset))
        .route("/v1/gate", get(gate::gate).post(gate::gate))
        .route("/healthz", get(handlers::healthz))
        .route("/readyz", get(handlers::readyz))
        .route("/openapi.json", get(handlers::openapi))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(engine)
}

async fn unknown_path() -> Response {
    let error = Error::invalid("path", "is not known; see /openapi.json");
    reply::problem(&error.into(), StatusCode::NOT_FOUND)
}

async fn wrong_method() -> Response {
    let error = Error::invalid("method", "is not accepted here; see /openapi.json");
    reply::problem(&error.into(), StatusCode::METHOD_NOT_ALLOWED)
}
