//! HTTP requests: the API of the service, and the endpoints of this process: health, readiness,
//! metrics, and what operators look at.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_TYPE, EXPECT, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use tokio::time::Instant;
use tollgate::{Code, Error};
use tollgate_service::api::{BODY_MAX_BYTES, Endpoint, FailedElements, Rejection, Route, failure};
use tollgate_service::auth::{Role, bearer};

use crate::app::App;
use crate::hosts::host_of;
use crate::listen::{Bounded, Client, Unreadable};
use crate::operators::{self, Operators};
use crate::status::Events;

/// The message of a listener that is full.
pub(crate) const FULL: &str = "all connections are busy";
/// The most bytes of a rejected request that are read and ignored.
const IGNORED_MAX_BYTES: usize = 8 * BODY_MAX_BYTES;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// The body of a response: whole, or a stream of events.
pub(crate) type Answer = Either<Full<Bytes>, Events>;

/// What a request is for.
#[derive(Clone)]
enum Target {
    Health,
    Readiness,
    Metrics,
    Operators(Operators),
    Api(Route),
}

impl Target {
    /// The role that a client needs, if any.
    const fn role(&self) -> Option<Role> {
        match self {
            Self::Health | Self::Readiness => None,
            Self::Metrics => Some(Role::Caller),
            Self::Operators(target) => target.role(),
            Self::Api(route) => route.endpoint.role(),
        }
    }

    /// The methods that it accepts; the API checks its own.
    const fn methods(&self) -> Option<&'static str> {
        match self {
            Self::Health | Self::Readiness | Self::Metrics => Some("GET,HEAD"),
            Self::Operators(target) => Some(target.methods()),
            Self::Api(_) => None,
        }
    }
}

/// Answers a request of a client.
pub(crate) async fn answer<B>(
    app: &Arc<App>,
    client: &Arc<Client>,
    request: Request<B>,
) -> Response<Answer>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let (parts, body) = request.into_parts();
    match target(app, client, &parts) {
        Ok(Target::Api(route)) => of_api(app, client, &route, &parts, body).await,
        // Its future is large, and would be a part of that of every request.
        other => Box::pin(of_others(app, client, other, (parts, body))).await,
    }
}

/// Answers a request that is none of the API, or is rejected.
async fn of_others<B>(
    app: &Arc<App>,
    client: &Arc<Client>,
    target: Result<Target, Rejection>,
    (parts, body): (Parts, B),
) -> Response<Answer>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let response = match target {
        Ok(Target::Health) => text(TEXT, "ok\n"),
        Ok(Target::Readiness) => ready(app).await,
        Ok(Target::Metrics) => text(OPENMETRICS, app.metrics_text()),
        Ok(Target::Operators(target)) => {
            return operators::answer(app, client, target, (&parts, body)).await;
        }
        Ok(Target::Api(route)) => return of_api(app, client, &route, &parts, body).await,
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
    if let Some(code) = code_of(&response) {
        app.refused("http", code);
    }
    response.map(whole)
}

/// The code of a problem that is the fault of the client. A gate may deny with the same statuses,
/// without a problem.
pub(crate) fn code_of(response: &Response<Bytes>) -> Option<Code> {
    let code = match response.status() {
        StatusCode::BAD_REQUEST => Code::InvalidRequest,
        StatusCode::UNAUTHORIZED => Code::Unauthorized,
        StatusCode::FORBIDDEN => Code::Forbidden,
        StatusCode::NOT_FOUND => Code::UnknownPolicy,
        StatusCode::CONFLICT => Code::IdempotencyConflict,
        StatusCode::NOT_IMPLEMENTED => Code::Unsupported,
        _ => return None,
    };
    let kind = response.headers().get(CONTENT_TYPE)?;
    kind.as_bytes().starts_with(b"application/problem").then_some(code)
}

/// The body of a response that has an end.
pub(crate) fn whole(body: Bytes) -> Answer {
    Either::Left(Full::new(body))
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
        path => match Operators::at(app, path)? {
            Some(target) => Target::Operators(target),
            None => Target::Api(app.api.route(method, uri, headers)?),
        },
    };
    let accepts = |methods: &str| methods.split(',').any(|accepted| accepted == method.as_str());
    if let Some(methods) = target.methods().filter(|methods| !accepts(methods)) {
        return Err(Rejection::MethodNotAllowed(methods));
    }
    if target.methods().is_some() && target.role().is_some() {
        let auth = app.auth();
        let rights = auth.permit(bearer(headers), Role::Caller).map_err(Rejection::of)?;
        auth.permit_site(Role::Caller, uri, headers).map_err(Rejection::of)?;
        // Endpoints of this process show every policy, unless they say otherwise.
        if !matches!(target, Target::Operators(Operators::Inspect)) {
            rights.policies.permit_all().map_err(Rejection::of)?;
        }
    }
    if let Some(role) = target.role() {
        app.check_host(role, host.as_deref()).map_err(Rejection::of)?;
    }
    app.note_valid(client, target.role().is_some());
    Ok(target)
}

/// Answers a request of the API, timed and traced if its endpoint is.
async fn of_api<B>(
    app: &App,
    client: &Client,
    route: &Route,
    parts: &Parts,
    body: B,
) -> Response<Answer>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let is_timed = route.endpoint.is_timed();
    let response = match app.telemetry.traces.as_ref().filter(|_| is_timed) {
        Some(traces) => {
            let Parts { method, uri, headers, .. } = parts;
            let span = traces.begin_request("http", method, uri.path(), headers);
            let respond = respond(app, route, parts, body);
            Box::pin(app.telemetry.request("http", Some(span), respond)).await
        }
        None => {
            let start = Instant::now();
            let response = respond(app, route, parts, body).await;
            if is_timed {
                app.telemetry.metrics.request("http", start.elapsed());
            }
            response
        }
    };
    if let Some(code) = code_of(&response) {
        // A client that a token would have given the right may have guessed one.
        if code == Code::Unauthorized {
            app.authentication_failed("http", client).await;
        }
        app.refused("http", code);
    }
    if let Some(FailedElements(codes)) = response.extensions().get() {
        codes.iter().for_each(|code| app.refused("http", *code));
    }
    if route.endpoint == Endpoint::AcquireMany {
        // A batch takes long: other connections of this thread are read before the next. By a task,
        // because hyper polls a request again at once, which ends a mere yield.
        let _turn = tokio::spawn(tokio::task::yield_now()).await;
    }
    response.map(whole)
}

/// Reads the body of a request of the API, and decides: the request that most clients make most of
/// the time without a future.
async fn respond<B>(app: &App, route: &Route, parts: &Parts, body: B) -> Response<Bytes>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let body = match route.endpoint.reads_body() {
        true => read(body, app.time_limits.request).await,
        false => Ok(Bytes::new()),
    };
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return rejection.response(),
    };
    match app.api.answer_now(route, &body) {
        Some(response) => response,
        None => Box::pin(app.api.answer(route, parts.uri.query(), &body)).await,
    }
}

/// Reads a body within its bounds.
pub(crate) async fn read<B>(body: B, limit: Duration) -> Result<Bytes, Rejection>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let read = Bounded::<_>::new(pin!(body), BODY_MAX_BYTES, limit, None).whole().await;
    read.map_err(|why| match why {
        Unreadable::Late => Rejection::BodyTimedOut,
        Unreadable::Long | Unreadable::Crowded => Rejection::BodyTooLarge,
    })
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
