//! HTTP requests: the API of the service, and the endpoints of this process: health, readiness and
//! metrics.

use std::pin::pin;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_TYPE, EXPECT, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use tollgate::{Code, Error};
use tollgate_service::api::{BODY_MAX_BYTES, Rejection, Route, failure};
use tollgate_service::auth::{Role, bearer};

use crate::app::App;
use crate::hosts::host_of;
use crate::listen::Client;

/// The message of a listener that is full.
pub(crate) const FULL: &str = "all connections are busy";
/// The most bytes of a rejected request that are read and ignored.
const IGNORED_MAX_BYTES: usize = 8 * BODY_MAX_BYTES;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// What a request is for.
#[derive(Clone, Copy)]
enum Target {
    Health,
    Readiness,
    Metrics,
    Api(Route),
}

impl Target {
    /// The role that a client needs, if any.
    const fn role(self) -> Option<Role> {
        match self {
            Self::Health | Self::Readiness => None,
            Self::Metrics => Some(Role::Caller),
            Self::Api(route) => route.endpoint.role(),
        }
    }
}

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
    let response = match target(app, client, &parts) {
        Ok(Target::Health) => text(TEXT, "ok\n"),
        Ok(Target::Readiness) => ready(app).await,
        Ok(Target::Metrics) => text(OPENMETRICS, app.metrics_text()),
        Ok(Target::Api(route)) => of_api(app, route, &parts, body).await,
        Err(rejection) => {
            if matches!(rejection, Rejection::Unauthorized(_)) {
                app.authentication_failed("http", client).await;
            }
            // A client that waits for permission has not sent it. What is reserved for probes is
            // not to be kept by a body that does not arrive.
            if !parts.headers.contains_key(EXPECT) && !client.is_reserved() {
                ignore(body, app.time_limits.request).await;
            }
            rejection.response()
        }
    };
    response.map(Full::new)
}

/// What a request is for, if the client may make it.
fn target(app: &App, client: &Client, parts: &Parts) -> Result<Target, Rejection> {
    let Parts { method, uri, headers, version, .. } = parts;
    let host = host_of(uri, *version, headers).map_err(Rejection::Failed)?;
    let target = match uri.path() {
        "/healthz" => Target::Health,
        "/readyz" => Target::Readiness,
        // The listener has no other connection left.
        _ if client.is_reserved() => {
            return Err(Rejection::Failed(Error::new(Code::QueueFull, FULL)));
        }
        "/metrics" => Target::Metrics,
        _ => Target::Api(app.api.route(method, uri, headers)?),
    };
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    if !is_read && !matches!(target, Target::Api(_)) {
        return Err(Rejection::MethodNotAllowed("GET,HEAD"));
    }
    if matches!(target, Target::Metrics) {
        app.auth().permit(bearer(headers), Role::Caller).map_err(Rejection::of)?;
        app.auth().permit_site(Role::Caller, uri, headers).map_err(Rejection::of)?;
    }
    if let Some(role) = target.role() {
        app.check_host(role, host.as_ref()).map_err(Rejection::of)?;
    }
    app.note_valid(client, target.role().is_some());
    Ok(target)
}

/// Answers a request of the API, timed and traced if its endpoint is.
async fn of_api<B>(app: &App, route: Route, parts: &Parts, body: B) -> Response<Bytes>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let endpoint = route.endpoint;
    let respond = async {
        let body = match endpoint.reads_body().then(|| read(body, app.time_limits.request)) {
            None => Bytes::new(),
            Some(read) => match read.await {
                Ok(body) => body,
                Err(rejection) => return rejection.response(),
            },
        };
        app.api.answer(route, parts.uri.query(), &body).await
    };
    if !route.endpoint.is_timed() {
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

/// Reads a body and keeps nothing of it: a client that still writes when the connection is closed
/// gets a broken pipe instead of the answer.
async fn ignore<B>(body: B, limit: Duration)
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let mut body = pin!(Limited::new(body, IGNORED_MAX_BYTES));
    let whole = async { while let Some(Ok(_)) = body.frame().await {} };
    // The answer is the same.
    let _late = tokio::time::timeout(limit, whole).await;
}

async fn ready(app: &App) -> Response<Bytes> {
    match app.ready().await {
        Ok(()) if app.engine().in_process() => text(TEXT, "ready: limits are per process\n"),
        Ok(()) => text(TEXT, "ready\n"),
        Err(error) => failure(&error),
    }
}

fn text(kind: HeaderValue, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
