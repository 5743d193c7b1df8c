//! HTTP requests: the API of the service, and the endpoints of this process: health, readiness and
//! metrics.

use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response};
use tollgate::{Code, Error};
use tollgate_service::api::{BODY_MAX_BYTES, Endpoint, Rejection, failure};
use tollgate_service::auth::{Role, bearer};

use crate::app::App;
use crate::browsers;
use crate::listen::Client;

/// The message of a listener that is full.
pub(crate) const FULL: &str = "all connections are busy";

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Answers a request of a client.
pub(crate) async fn answer<B>(
    app: &App,
    client: &Client,
    request: Request<B>,
) -> Response<Full<Bytes>>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let (parts, body) = request.into_parts();
    let host = match browsers::host_of(&parts.uri, parts.version, &parts.headers) {
        Ok(host) => host,
        Err(error) => return failure(&error.into()).map(Full::new),
    };
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    let path = parts.uri.path();
    if matches!(path, "/healthz" | "/readyz") {
        app.note_valid(client, false);
    }
    let response = match path {
        "/healthz" | "/readyz" | "/metrics" if !is_read => {
            Rejection::MethodNotAllowed("GET,HEAD").response()
        }
        "/healthz" => text(TEXT, "ok\n"),
        "/readyz" => ready(app).await,
        // The listener has no other connection left.
        _ if client.is_reserved() => failure(&Error::new(Code::QueueFull, FULL).into()),
        "/metrics" => metrics(app, client, &parts, host.as_ref()),
        _ => match route(app, &parts, host.as_ref()) {
            Ok(endpoint) => {
                app.note_valid(client, endpoint.role().is_some());
                of_api(app, endpoint, &parts, body).await
            }
            Err(rejection) => rejection.response(),
        },
    };
    response.map(Full::new)
}

/// The endpoint of a request, if the client may use it.
fn route(app: &App, parts: &Parts, host: Option<&Authority>) -> Result<Endpoint, Rejection> {
    let Parts { method, uri, headers, .. } = parts;
    let endpoint = app.api.route(method, uri.path(), headers)?;
    if let Some(role) = endpoint.role() {
        app.check_site(role, &app.hosts, host, headers).map_err(Rejection::Forbidden)?;
    }
    Ok(endpoint)
}

/// Answers a request of the API; those that decide are timed and traced.
async fn of_api<B>(app: &App, endpoint: Endpoint, parts: &Parts, body: B) -> Response<Bytes>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let respond = async {
        let body = match endpoint.reads_body().then(|| read(body, app.time_limits.request)) {
            None => Bytes::new(),
            Some(read) => match read.await {
                Ok(body) => body,
                Err(rejection) => return rejection.response(),
            },
        };
        app.api.answer(endpoint, parts.uri.query(), &body).await
    };
    if matches!(endpoint, Endpoint::Limits | Endpoint::Reset | Endpoint::OpenApi) {
        return respond.await;
    }
    let span = app.telemetry.traces.as_ref().map(|traces| {
        traces.begin_request("http", &parts.method, parts.uri.path(), &parts.headers)
    });
    app.telemetry.request("http", span, respond).await
}

/// Reads a body within its bounds.
async fn read<B>(body: B, limit: Duration) -> Result<Bytes, Rejection>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let whole = Limited::new(body, BODY_MAX_BYTES).collect();
    match tokio::time::timeout(limit, whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => Err(Rejection::BodyTooLarge),
        Err(_) => Err(Rejection::BodyTimedOut),
    }
}

async fn ready(app: &App) -> Response<Bytes> {
    match app.ready().await {
        Ok(()) if app.engine().in_process() => text(TEXT, "ready: limits are per process\n"),
        Ok(()) => text(TEXT, "ready\n"),
        Err(error) => failure(&error),
    }
}

fn metrics(
    app: &App,
    client: &Client,
    parts: &Parts,
    host: Option<&Authority>,
) -> Response<Bytes> {
    if let Err(error) = app.auth().permit(bearer(&parts.headers), Role::Caller) {
        return Rejection::Unauthorized(error).response();
    }
    match app.check_site(Role::Caller, &app.hosts, host, &parts.headers) {
        Ok(()) => {
            app.note_valid(client, true);
            text(OPENMETRICS, app.metrics_text())
        }
        Err(error) => Rejection::Forbidden(error).response(),
    }
}

fn text(kind: HeaderValue, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
