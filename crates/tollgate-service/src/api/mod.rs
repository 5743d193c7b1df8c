//! The HTTP API: routes, decoding, encoding. JSON in and out, and a gate for proxies.
//!
//! A host that has the whole request calls [`Api::handle`]. A host that reads bodies from a socket
//! calls [`Api::route`] first, so that a client without the right cannot make it read one, and then
//! [`Api::answer`].

mod decode;
mod direct;
mod encode;
mod endpoint;
mod fields;
mod gate;
mod policies;
mod rejection;
mod write;

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use self::decode::{KeyOf, Refund, Request, Settle, batch};
use crate::auth::{Auth, Rights, SEC_FETCH_SITE, bearer};
use crate::engine::{CheckRequest, Engine, Result};

pub use decode::key_and_policy;
pub use encode::{FailedElements, failure};
pub use endpoint::Endpoint;
pub use rejection::Rejection;

/// A response with its whole body.
pub type Response = http::Response<Bytes>;

/// The longest body accepted, in bytes: a full batch of the longest keys fits.
pub const BODY_MAX_BYTES: usize = 1024 * 1024;

/// Every header of a request that [`Api::route`] reads: a host need not pass others.
pub const REQUEST_HEADERS: [HeaderName; 4] = [AUTHORIZATION, HOST, ORIGIN, SEC_FETCH_SITE];

/// The OpenAPI document of this API.
pub const OPENAPI: &str = include_str!("openapi.json");

/// A request that a client may make: its endpoint, and what else the client may do.
#[derive(Clone, Debug)]
pub struct Route {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// What the client may do; nothing where the endpoint needs no right.
    rights: Rights,
}

/// The API over an engine, for clients with tokens.
///
/// ```
/// use http::Request;
/// use tollgate_core::Limiter;
/// use tollgate_core::store::{BoxStore, Memory};
/// use tollgate_service::{Api, Auth, Engine, policies_from_yaml};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = Limiter::new(BoxStore::new(Memory::new()));
/// let policies = policies_from_yaml("policies: {api: {limit: 1 per 1m}}")?;
/// let api = Api::new(Engine::new(limiter, policies), Auth::default());
///
/// let request = Request::post("/v1/acquire").body(r#"{"policy":"api","key":"ada"}"#)?;
/// let is_allowed = |body: &[u8]| body.starts_with(br#"{"allowed":true"#);
/// assert!(is_allowed(api.handle(&request).await.body()));
/// assert!(!is_allowed(api.handle(&request).await.body()), "one per minute");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Api {
    engine: Arc<Engine>,
    auth: Arc<ArcSwap<Auth>>,
}

impl Api {
    /// The API of an engine.
    #[must_use]
    pub fn new(engine: impl Into<Arc<Engine>>, auth: impl Into<Arc<Auth>>) -> Self {
        Self { engine: engine.into(), auth: Arc::new(ArcSwap::new(auth.into())) }
    }

    /// The engine.
    #[must_use]
    pub const fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The tokens in force.
    #[must_use]
    pub fn auth(&self) -> impl Deref<Target = Arc<Auth>> + use<> {
        self.auth.load()
    }

    /// Accepts other tokens from now on. Requests under way keep the rights that they began with.
    pub fn replace_auth(&self, auth: impl Into<Arc<Auth>>) {
        self.auth.store(auth.into());
    }

    /// Answers a request whose body is complete.
    pub async fn handle<B: AsRef<[u8]>>(&self, request: &http::Request<B>) -> Response {
        match self.route(request.method(), request.uri(), request.headers()) {
            Ok(_) if request.body().as_ref().len() > BODY_MAX_BYTES => {
                Rejection::BodyTooLarge.response()
            }
            Ok(route) => self.answer(&route, request.uri().query(), request.body().as_ref()).await,
            Err(rejection) => rejection.response(),
        }
    }

    /// Finds the endpoint of a request, and whether the client may use it.
    ///
    /// # Errors
    /// When there is no such endpoint, the client may not use it, or a page of another site has
    /// made a browser send the request.
    pub fn route(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Route, Rejection> {
        let endpoint = Endpoint::at(uri.path()).ok_or(Rejection::UnknownPath)?;
        if !endpoint.accepts(method) {
            return Err(Rejection::MethodNotAllowed(endpoint.methods()));
        }
        let rights = match endpoint.role() {
            None => Rights::none(),
            Some(needed) => {
                let auth = self.auth();
                let rights = auth.permit(bearer(headers), needed).map_err(Rejection::of)?;
                auth.permit_site(needed, uri, headers).map_err(Rejection::of)?;
                rights
            }
        };
        Ok(Route { endpoint, rights })
    }

    /// Answers a request that [`Api::route`] has accepted. A failure becomes a problem document.
    pub async fn answer(&self, route: &Route, query: Option<&str>, body: &[u8]) -> Response {
        let answered = self.decide(route, query, body).await;
        answered.unwrap_or_else(|error| failure(&error))
    }

    async fn decide(
        &self,
        Route { endpoint, rights }: &Route,
        query: Option<&str>,
        body: &[u8],
    ) -> Result<Response> {
        let engine = &*self.engine;
        let scope = &rights.policies;
        Ok(match endpoint {
            Endpoint::Acquire => {
                let request = Request::of_body(body, &Request::FIELDS)?;
                let listed = request.listed();
                encode::decision(&engine.acquire(request.check(&listed).within(scope)).await?)
            }
            Endpoint::AcquireMany => {
                let requests = batch(body)?;
                let listed = requests.iter().map(|request| request.as_ref().map(Request::listed));
                let listed: Vec<_> = listed.map(Result::unwrap_or_default).collect();
                let checks = requests.iter().zip(&listed).map(|(request, listed)| match request {
                    Ok(request) => Ok(request.check(listed).within(scope)),
                    Err(failure) => Err(failure.clone()),
                });
                let checks: Vec<Result<CheckRequest<'_>>> = checks.collect();
                encode::decisions(&engine.acquire_batch(checks).await?)
            }
            Endpoint::Peek => {
                let request = Request::of_body(body, &Request::FIELDS)?;
                let listed = request.listed();
                encode::decision(&engine.peek(request.check(&listed).within(scope)).await?)
            }
            Endpoint::Forecast => {
                let request = Request::of_body(body, &Request::KEY_FIELDS)?;
                let listed = request.listed();
                encode::forecast(&engine.forecast(request.check(&listed).within(scope)).await?)
            }
            Endpoint::Limits => {
                let request = Request::of_body(body, &Request::KEY_FIELDS)?;
                let listed = request.listed();
                encode::limits(&engine.limits(request.check(&listed).within(scope))?)
            }
            Endpoint::Refund => {
                let refund = Refund::of_body(body)?;
                encode::settle(&engine.refund(refund.request(), rights).await?)
            }
            Endpoint::Settle => {
                let settle = Settle::of_body(body)?;
                encode::settle(&engine.settle(settle.request(), rights).await?)
            }
            Endpoint::Reset => {
                let key = KeyOf::of_body(body)?;
                let (policy, key) = key.names();
                engine.reset(policy, key, rights).await?;
                encode::reset()
            }
            Endpoint::Gate => gate::gate(engine, query, scope).await?,
            Endpoint::Policies => policies::policies(&engine.policies(), scope),
            Endpoint::OpenApi => openapi(),
        })
    }
}

fn openapi() -> Response {
    let mut response = Response::new(Bytes::from_static(OPENAPI.as_bytes()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
