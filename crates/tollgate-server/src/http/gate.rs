//! The gate for proxies: no body, only a status and headers.
//!
//! nginx's `auth_request` understands 2xx, 401 and 403 and nothing else, so the status of a denial
//! can be chosen; Traefik and Caddy hand a 429 on to the client.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use tollgate::Error;

use super::decode::{Fields, Request};
use super::{headers, reply};
use crate::engine::{Engine, Failure};

const FIELDS: [&str; 5] = ["policy", "key", "cost", "request_id", "deny_status"];

pub(super) async fn gate(State(engine): State<Arc<Engine>>, RawQuery(query): RawQuery) -> Response {
    decide(&engine, query.as_deref()).await.unwrap_or_else(|failure| reply::failure(&failure))
}

async fn decide(engine: &Engine, query: Option<&str>) -> Result<Response, Failure> {
    let mut fields = Fields::of_query(query, &FIELDS)?;
    let denied = deny_status(fields.whole_text("deny_status")?)?;
    let request = Request::of_query(&mut fields)?;
    let policies = engine.policies();
    let answer = engine.acquire(request.ask()).await?;
    let mut response = Response::new(Body::empty());
    let allowed = answer.decision.is_allowed();
    *response.status_mut() = if allowed { StatusCode::NO_CONTENT } else { denied };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(policy) = policies.find(answer.policy.as_str()) {
        let asked = (policy, request.ask().key);
        headers::tell(response.headers_mut(), asked, &answer, engine.now_ms_up());
    }
    Ok(response)
}

/// The status of a denial: 429, or one that the proxy in front understands.
fn deny_status(chosen: Option<u64>) -> Result<StatusCode, Error> {
    match chosen {
        None | Some(429) => Ok(StatusCode::TOO_MANY_REQUESTS),
        Some(403) => Ok(StatusCode::FORBIDDEN),
        Some(401) => Ok(StatusCode::UNAUTHORIZED),
        Some(_) => Err(Error::invalid("deny_status", "is not accepted; accepted: 401, 403, 429")),
    }
}
