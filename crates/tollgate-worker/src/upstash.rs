//! Upstash through the `fetch` of a Worker.
//!
//! ```no_run
//! use tollgate_worker::{limiter, upstash};
//!
//! # async fn example(env: worker::Env) -> Result<(), Box<dyn std::error::Error>> {
//! let (url, token) = (env.var("UPSTASH_URL")?, env.secret("UPSTASH_TOKEN")?);
//! let store = upstash::open(&url.to_string(), &token.to_string())?;
//! let limiter = limiter(store).build();
//! # Ok(())
//! # }
//! ```
//!
//! Open a store for each request: callers of one store share calls.

use tollgate_core::store::Retries;
use tollgate_core::{Error, Result};
use tollgate_redis::upstash::{Http, Request, Response, Upstash};
use tollgate_redis::{KeyLayout, Redis};
use worker::send::IntoSendFuture as _;
use worker::{Fetch, Headers, Method, RequestInit, RequestRedirect};

use crate::clock::WorkerClock;
use crate::error::unavailable;

/// A store in a database at Upstash, with its REST URL and its token.
///
/// # Errors
/// `config_invalid` naming `url` or `token`.
pub fn open(url: &str, token: &str) -> Result<Redis<Upstash<FetchHttp>>> {
    let transport = Upstash::over(FetchHttp, url, token)?;
    Ok(Redis::with_options(transport, KeyLayout::default(), Retries::default(), WorkerClock))
}

/// Sends requests with the `fetch` of the runtime. A redirection is not followed.
#[derive(Clone, Copy, Debug, Default)]
pub struct FetchHttp;

impl Http for FetchHttp {
    async fn post(&self, request: Request<'_>) -> Result<Response> {
        let prepared = prepare(&request).map_err(|error| failed(&error).not_sent())?;
        send(prepared).into_send().await.map_err(|error| failed(&error))
    }
}

fn prepare(request: &Request<'_>) -> worker::Result<worker::Request> {
    let headers = Headers::new();
    headers.set("content-type", "application/json")?;
    headers.set("authorization", &format!("Bearer {}", request.token))?;
    let mut init = RequestInit::new();
    let body = worker::js_sys::Uint8Array::from(&*request.body);
    init.with_method(Method::Post).with_headers(headers).with_body(Some(body.into()));
    init.with_redirect(RequestRedirect::Manual);
    worker::Request::new_with_init(request.url, &init)
}

async fn send(request: worker::Request) -> worker::Result<Response> {
    let mut response = Fetch::Request(request).send().await?;
    let (status, body) = (response.status_code(), response.bytes().await?);
    Ok(Response { status, body })
}

/// Whether the request has reached the server is unknown.
fn failed(error: &worker::Error) -> Error {
    unavailable("the request to Upstash failed", error)
}
