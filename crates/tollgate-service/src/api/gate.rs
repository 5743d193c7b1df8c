//! The endpoint for proxies: the query in, a status and headers out, no body.
//!
//! nginx's `auth_request` understands 2xx, 401 and 403 and nothing else, so the status of a denial
//! can be chosen; Traefik and Caddy pass a 429 on to the client.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use tollgate_core::{Error, Verdict};
use tollgate_http::LimitFields;

use super::Response;
use super::decode::{Fields, Request};
use crate::engine::{CheckResponse, Engine, Result};
use crate::policy::{LimitSet, NamedLimit};

const FIELDS: [&str; 5] = ["policy", "key", "cost", "request_id", "deny_status"];

/// Charges a key, and answers with a status and headers.
pub(super) async fn gate(engine: &Engine, query: Option<&str>) -> Result<Response> {
    let mut query = Fields::of_query(query, &FIELDS)?;
    let denied = deny_status(query.whole_text("deny_status")?)?;
    let request = Request::of_query(&mut query)?;
    let policies = engine.policies();
    let checked = engine.acquire(request.check()).await?;
    let mut response = Response::new(Bytes::new());
    let allowed = checked.decision.is_allowed();
    *response.status_mut() = if allowed { StatusCode::NO_CONTENT } else { denied };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(policy) = policies.find(checked.policy.as_str()) {
        let set = policy.set_of(request.check().key);
        insert_fields(response.headers_mut(), set, &checked, engine.now_ms_up());
    }
    Ok(response)
}

/// Adds the limits, what is left of each, and when to come back. A decision without the store has
/// the numbers of one limit only.
fn insert_fields(
    headers: &mut HeaderMap,
    LimitSet { limits, fields, .. }: &LimitSet,
    CheckResponse { decision, .. }: &CheckResponse,
    now_ms: u64,
) {
    let is_deciding = |limit: &&NamedLimit| decision.binding().is_none_or(|it| limit.name == *it);
    let standings: Vec<LimitFields<'_>> = match decision.parts() {
        [] => {
            let deciding = limits.iter().find(is_deciding);
            deciding.map(|it| LimitFields::new(it.quota(), decision, now_ms)).into_iter().collect()
        }
        parts => {
            let each = limits.iter().zip(parts);
            each.map(|(limit, own)| LimitFields::new(limit.quota(), own, now_ms)).collect()
        }
    };
    fields.write(&standings, headers);
    if let (Verdict::Denied, Some(wait_ms)) = (decision.verdict, decision.retry_after_ms) {
        headers.insert(RETRY_AFTER, HeaderValue::from(wait_ms.div_ceil(1_000)));
    }
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
