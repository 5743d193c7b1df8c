//! What operators look at: the page, and the status that it reads.

use std::sync::Arc;

use http_body_util::Either;
use hyper::Response;
use hyper::body::{Body, Bytes};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use tollgate::{Code, Error};
use tollgate_service::api::{Rejection, failure};
use tollgate_service::auth::{Role, bearer};
use tollgate_service::engine::Failure;

use crate::app::App;
use crate::http::{Answer, code_of, read, whole};
use crate::listen::Client;
use crate::page::{Asset, protect};
use crate::status;

/// Tells nginx to pass a stream on as it arrives.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// What a request of an operator is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operators {
    Page(Asset),
    Status,
    Events,
    Inspect,
}

impl Operators {
    /// What is at a path.
    ///
    /// # Errors
    /// `forbidden` when others than callers reach the listener: it shows what all keys do.
    pub(crate) fn at(app: &App, path: &str) -> Result<Option<Self>, Rejection> {
        let target = match path {
            "/v1/status" => Self::Status,
            "/v1/events" => Self::Events,
            "/v1/inspect" => Self::Inspect,
            path => match Asset::at(path) {
                Some(asset) => Self::Page(asset),
                None => return Ok(None),
            },
        };
        if app.has_page() {
            return Ok(Some(target));
        }
        let message = "is off: others can reach this address without a token; set tokens, or \
                       listen on a loopback address";
        Err(Rejection::Failed(Error::new(Code::Forbidden, message).with_field("path")))
    }

    /// The role that a client needs, if any. The files of the page are public.
    pub(crate) const fn role(self) -> Option<Role> {
        match self {
            Self::Page(_) => None,
            Self::Status | Self::Events | Self::Inspect => Some(Role::Caller),
        }
    }

    /// The methods that it accepts, as `Allow` states them.
    pub(crate) const fn methods(self) -> &'static str {
        match self {
            Self::Page(_) | Self::Status | Self::Events => "GET,HEAD",
            Self::Inspect => "POST",
        }
    }
}

/// Answers a request that the client may make.
pub(crate) async fn answer<B>(
    app: &Arc<App>,
    client: &Arc<Client>,
    target: Operators,
    (parts, body): (&Parts, B),
) -> Response<Answer>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let response = match target {
        Operators::Page(asset) => asset.response(),
        Operators::Status => json(status::whole(app).await),
        Operators::Events => return events(app, client, parts).await,
        Operators::Inspect => match read(body, app.time_limits.request).await {
            Err(rejection) => rejection.response(),
            Ok(body) => match inspect(app, parts, &body).await {
                Ok(standing) => json(standing),
                Err(error) => failure(&error),
            },
        },
    };
    if let Some(code) = code_of(&response) {
        app.refused("http", code);
    }
    response.map(whole)
}

/// How a key stands under the policies that the client may use.
async fn inspect(app: &App, parts: &Parts, body: &[u8]) -> Result<Bytes, Failure> {
    let rights = app.auth().permit(bearer(&parts.headers), Role::Caller)?;
    status::inspect(app, body, &rights.policies).await
}

async fn events(app: &Arc<App>, client: &Arc<Client>, parts: &Parts) -> Response<Answer> {
    let Some(stream) = client.begin_stream() else {
        let error = Error::new(Code::QueueFull, "too many streams are open");
        return failure(&error.into()).map(whole);
    };
    let token = bearer(&parts.headers).map(str::to_owned);
    let events = status::events(app, token, stream).await;
    let mut response = Response::new(Either::Right(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    protect(headers);
    response
}

fn json(body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    protect(headers);
    response
}
