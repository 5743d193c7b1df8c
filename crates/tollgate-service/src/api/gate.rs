//! The endpoint for proxies: the query in, a status and headers out, no body.
//!
//! nginx's `auth_request` understands 2xx, 401 and 403 and nothing else, so the status of a denial
//! can be chosen; Traefik and Caddy pass a 429 on to the client.
//!
//! What else there is to say about a decision is in fields of their own, which only some answers
//! have. A delay is lost where the proxy does not pass its field on, so a policy that delays is
//! decided only for requests that say that it does: `delay=header`.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use tollgate_core::{Error, Verdict};
use tollgate_http::LimitFields;
use tollgate_http::names::{
    TOLLGATE_BINDING, TOLLGATE_DEGRADED, TOLLGATE_DELAY_MS, TOLLGATE_REPLAYED, TOLLGATE_SHADOW,
};

use super::Response;
use super::decode::Request;
use super::fields::Fields;
use crate::auth::Scope;
use crate::engine::{CheckResponse, Engine, Result};
use crate::policy::{LimitSet, NamedLimit};

const FIELDS: [&str; 6] = ["policy", "key", "cost", "request_id", "deny_status", "delay"];

/// Charges a key, and answers with a status and headers.
pub(super) async fn gate(engine: &Engine, query: Option<&str>, scope: &Scope) -> Result<Response> {
    let mut query = Fields::of_query(query, &FIELDS)?;
    let denied = deny_status(query.whole_text("deny_status")?)?;
    let carries_delay = carries_delay(query.text("delay")?.as_deref())?;
    let request = Request::of_query(&mut query)?;
    let policies = engine.policies();
    let check = request.check(&[]).carries_delay(carries_delay).within(scope);
    let checked = engine.acquire(check).await?;
    let mut response = Response::new(Bytes::new());
    let allowed = checked.decision.is_allowed();
    *response.status_mut() = if allowed { StatusCode::NO_CONTENT } else { denied };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    insert_rest(response.headers_mut(), &checked);
    if let Ok(policy) = policies.find(checked.policy.as_str()) {
        let key = check.charges().first().map_or("", |charge| charge.key);
        insert_fields(response.headers_mut(), policy.set_of(key), &checked, engine.now_ms_up());
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

/// Adds what else there is to say about the decision.
fn insert_rest(headers: &mut HeaderMap, checked: &CheckResponse) {
    let decision = &checked.decision;
    if decision.delay_ms > 0 {
        headers.insert(TOLLGATE_DELAY_MS, HeaderValue::from(decision.delay_ms));
    }
    let mut word = |name, word: Option<&'static str>| {
        if let Some(word) = word {
            headers.insert(name, HeaderValue::from_static(word));
        }
    };
    word(TOLLGATE_DEGRADED, decision.degraded.map(|mode| mode.as_str()));
    word(TOLLGATE_SHADOW, checked.shadow_verdict().map(Verdict::as_str));
    word(TOLLGATE_REPLAYED, decision.replayed.then_some("true"));
    // Names hold letters, digits, `_`, `.` and `-`.
    let binding = decision.binding().map(|name| HeaderValue::from_str(name.as_str()));
    if let Some(Ok(binding)) = binding {
        headers.insert(TOLLGATE_BINDING, binding);
    }
}

/// Whether the proxy passes the field of a delay on.
fn carries_delay(delay: Option<&str>) -> Result<bool, Error> {
    match delay {
        None => Ok(false),
        Some("header") => Ok(true),
        Some(_) => Err(Error::invalid("delay", "is not accepted; accepted: header")),
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
