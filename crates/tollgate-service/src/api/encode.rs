//! From responses of the engine to JSON.

use bytes::Bytes;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use serde::Serialize;
use tollgate_core::{Code, Decision, Forecast, Name};
use tollgate_http::Problem;

use super::{Response, write};
use crate::engine::{
    CheckResponse, Failure, LimitsResponse, PolicyLimits, SettleResponse, SettledLimit,
};
use crate::policy::LimitInfo;

/// More than most bodies have, so that memory is taken once.
const USUAL_BYTES: usize = 512;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// A decision is out of date at once.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The codes of the elements of a batch that failed, in the extensions of the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedElements(pub Vec<Code>);

/// `true`, or absent.
fn if_replayed(decision: &Decision) -> Option<bool> {
    decision.replayed.then_some(true)
}

#[derive(Serialize)]
struct ErrorJson<'a> {
    code: &'static str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
}

impl<'a> From<&'a Failure> for ErrorJson<'a> {
    fn from(failure: &'a Failure) -> Self {
        let error = &failure.error;
        Self { code: error.code().as_str(), detail: error.message(), field: error.field() }
    }
}

/// The error of an element of a batch.
#[derive(Serialize)]
struct ElementError<'a> {
    error: ErrorJson<'a>,
}

#[derive(Serialize)]
struct ForecastJson {
    spendable_now: u64,
    next_unit_at_ms: Option<u64>,
    full_at_ms: u64,
    limit: u64,
}

#[derive(Serialize)]
struct LimitsJson<'a> {
    policy: &'a str,
    shadow: bool,
    limits: Vec<LimitJson<'a>>,
}

#[derive(Serialize)]
pub(super) struct LimitJson<'a> {
    name: &'a str,
    policy: &'a str,
    shadow: bool,
    algorithm: &'a str,
    limit: u64,
    units: u64,
    period_us: u64,
    renewal: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    anchor: Option<&'static str>,
    max_debt: u64,
    on_outage: &'static str,
}

impl<'a> LimitJson<'a> {
    fn each(of: &'a PolicyLimits) -> impl Iterator<Item = Self> {
        of.limits.iter().map(|limit| Self::of((&of.policy, of.shadow), limit))
    }

    pub(super) fn of((policy, shadow): (&'a Name, bool), limit: &'a LimitInfo) -> Self {
        Self {
            name: limit.name.as_str(),
            policy: policy.as_str(),
            shadow,
            algorithm: &limit.algorithm,
            limit: limit.limit,
            units: limit.units,
            period_us: limit.period_us,
            renewal: limit.renewal,
            buckets: limit.buckets,
            anchor: limit.anchor,
            max_debt: limit.max_debt,
            on_outage: limit.on_outage,
        }
    }
}

/// What a settlement did; a refund is one for 0 units.
#[derive(Serialize)]
struct SettleJson<'a> {
    refunded: u64,
    charged: u64,
    dropped: u64,
    limit: u64,
    remaining: u64,
    reset_at_ms: u64,
    policy: &'a str,
    limits: Vec<SettledJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed: Option<bool>,
}

#[derive(Serialize)]
struct SettledJson<'a> {
    name: &'a str,
    policy: &'a str,
    refunded: u64,
    charged: u64,
    dropped: u64,
    limit: u64,
    remaining: u64,
    reset_at_ms: u64,
}

impl<'a> From<(&'a SettledLimit, &'a Decision)> for SettledJson<'a> {
    fn from((settled, own): (&'a SettledLimit, &'a Decision)) -> Self {
        Self {
            name: settled.name.name.as_str(),
            policy: settled.name.policy.as_str(),
            refunded: settled.refunded,
            charged: settled.charged,
            dropped: settled.dropped,
            limit: own.limit,
            remaining: own.remaining,
            reset_at_ms: own.reset_at_ms,
        }
    }
}

#[derive(Serialize)]
struct ResetJson {
    reset: bool,
}

pub(super) fn decision(response: &CheckResponse) -> Response {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    write::decision(response, &mut bytes);
    of_bytes(bytes)
}

pub(super) fn decisions(results: &[Result<CheckResponse, Failure>]) -> Response {
    let mut bytes = b"{\"decisions\":[".to_vec();
    for (index, result) in results.iter().enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        match result {
            Ok(response) => write::decision(response, &mut bytes),
            Err(failure) => put(&ElementError { error: failure.into() }, &mut bytes),
        }
    }
    bytes.extend_from_slice(b"]}");
    let mut response = of_bytes(bytes);
    let failures = results.iter().filter_map(|result| result.as_ref().err());
    let failed: Vec<Code> = failures.map(|failure| failure.error.code()).collect();
    if !failed.is_empty() {
        response.extensions_mut().insert(FailedElements(failed));
    }
    response
}

pub(super) fn forecast(forecast: &Forecast) -> Response {
    let Forecast { spendable_now, next_unit_at_ms, full_at_ms, limit, .. } = *forecast;
    json(&ForecastJson { spendable_now, next_unit_at_ms, full_at_ms, limit })
}

pub(super) fn limits(LimitsResponse { charges }: &LimitsResponse) -> Response {
    let policy = charges.first().map_or("", |charge| charge.policy.as_str());
    let limits = charges.iter().flat_map(LimitJson::each).collect();
    json(&LimitsJson { policy, shadow: charges.iter().all(|charge| charge.shadow), limits })
}

pub(super) fn settle(settled: &SettleResponse) -> Response {
    let standing = &settled.standing;
    let reply = SettleJson {
        refunded: settled.refunded(),
        charged: settled.charged(),
        dropped: settled.dropped(),
        limit: standing.limit,
        remaining: standing.remaining,
        reset_at_ms: standing.reset_at_ms,
        policy: settled.policy.as_str(),
        limits: settled.standings().map(SettledJson::from).collect(),
        replayed: if_replayed(standing),
    };
    json(&reply)
}

pub(super) fn reset() -> Response {
    json(&ResetJson { reset: true })
}

/// A problem document.
#[must_use]
pub fn failure(Failure { error, retry_after_ms, .. }: &Failure) -> Response {
    let problem = Problem::from(error).retry_after_ms(*retry_after_ms).to_http();
    let mut response = problem.map(Bytes::from);
    if error.code() == Code::Unauthorized {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

pub(super) fn json(body: &impl Serialize) -> Response {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    put(body, &mut bytes);
    of_bytes(bytes)
}

fn put(body: &impl Serialize, to: &mut Vec<u8>) {
    // Encoding structures of numbers and text does not fail.
    let _never = serde_json::to_writer(to, body);
}

fn of_bytes(bytes: Vec<u8>) -> Response {
    let mut response = Response::new(Bytes::from(bytes));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}
