//! From answers of the engine to JSON.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;
use tollgate::{Code, Forecast};

use crate::engine::{Answer, Failure, Limits, Refund};
use crate::policy::Described;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
/// A decision is true for an instant.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

#[derive(Serialize)]
struct DecisionJson<'a> {
    allowed: bool,
    verdict: &'static str,
    limit: u64,
    remaining: u64,
    reset_at_ms: u64,
    retry_after_ms: Option<u64>,
    delay_ms: u64,
    policy: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    binding: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<&'static str>,
}

impl<'a> From<&'a Answer> for DecisionJson<'a> {
    fn from(answer: &'a Answer) -> Self {
        let decision = &answer.decision;
        Self {
            allowed: decision.is_allowed(),
            verdict: decision.verdict.as_str(),
            limit: decision.limit,
            remaining: decision.remaining,
            reset_at_ms: decision.reset_at_ms,
            retry_after_ms: decision.retry_after_ms,
            delay_ms: decision.delay_ms,
            policy: answer.policy.as_str(),
            binding: decision.binding.as_ref().map(|name| name.as_str()),
            degraded: decision.degraded.map(|mode| mode.as_str()),
            shadow: answer.shadow.map(|verdict| verdict.as_str()),
        }
    }
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

#[derive(Serialize)]
struct ProblemJson<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    #[serde(flatten)]
    error: ErrorJson<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Element<'a> {
    Decision(DecisionJson<'a>),
    Error { error: ErrorJson<'a> },
}

#[derive(Serialize)]
struct Decisions<'a> {
    decisions: Vec<Element<'a>>,
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
struct LimitJson<'a> {
    name: &'a str,
    algorithm: &'a str,
    limit: u64,
    units: u64,
    period_us: u64,
    renewal: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    anchor: Option<&'static str>,
}

impl<'a> From<&'a Described> for LimitJson<'a> {
    fn from(limit: &'a Described) -> Self {
        Self {
            name: limit.name.as_str(),
            algorithm: &limit.algorithm,
            limit: limit.limit,
            units: limit.units,
            period_us: limit.period_us,
            renewal: limit.renewal,
            buckets: limit.buckets,
            anchor: limit.anchor,
        }
    }
}

#[derive(Serialize)]
struct RefundJson<'a> {
    refunded: u64,
    limit: u64,
    remaining: u64,
    reset_at_ms: u64,
    policy: &'a str,
}

#[derive(Serialize)]
struct ResetJson {
    reset: bool,
}

pub(super) fn decision(answer: &Answer) -> Response {
    json(StatusCode::OK, JSON, &DecisionJson::from(answer))
}

pub(super) fn decisions(answers: &[Result<Answer, Failure>]) -> Response {
    // A closure cannot say that what it returns borrows from what it takes.
    fn of(answer: &Result<Answer, Failure>) -> Element<'_> {
        match answer {
            Ok(answer) => Element::Decision(answer.into()),
            Err(failure) => Element::Error { error: failure.into() },
        }
    }
    json(StatusCode::OK, JSON, &Decisions { decisions: answers.iter().map(of).collect() })
}

pub(super) fn forecast(forecast: &Forecast) -> Response {
    let Forecast { spendable_now, next_unit_at_ms, full_at_ms, limit, .. } = *forecast;
    json(StatusCode::OK, JSON, &ForecastJson { spendable_now, next_unit_at_ms, full_at_ms, limit })
}

pub(super) fn limits(limits: &Limits) -> Response {
    let Limits { policy, limits, shadow } = limits;
    let limits = limits.iter().map(LimitJson::from).collect();
    json(StatusCode::OK, JSON, &LimitsJson { policy: policy.as_str(), shadow: *shadow, limits })
}

pub(super) fn refund(refund: &Refund) -> Response {
    let standing = &refund.standing;
    let reply = RefundJson {
        refunded: refund.units,
        limit: standing.limit,
        remaining: standing.remaining,
        reset_at_ms: standing.reset_at_ms,
        policy: refund.policy.as_str(),
    };
    json(StatusCode::OK, JSON, &reply)
}

pub(super) fn reset() -> Response {
    json(StatusCode::OK, JSON, &ResetJson { reset: true })
}

/// A failure, with the status of its code.
pub(super) fn failure(failure: &Failure) -> Response {
    problem(failure, status_of(failure.error.code()))
}

/// A failure, with another status.
pub(super) fn problem(failure: &Failure, status: StatusCode) -> Response {
    let problem = ProblemJson {
        r#type: "about:blank",
        title: status.canonical_reason().unwrap_or("Error"),
        status: status.as_u16(),
        error: failure.into(),
    };
    let mut response = json(status, PROBLEM, &problem);
    if let Some(wait) = failure.retry_after_ms {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.div_ceil(1_000)));
    }
    response
}

/// The one table from codes to statuses.
const fn status_of(code: Code) -> StatusCode {
    match code {
        Code::StoreUnavailable | Code::Timeout | Code::ConflictExhausted | Code::QueueFull => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        Code::InvalidRequest => StatusCode::BAD_REQUEST,
        Code::UnknownPolicy => StatusCode::NOT_FOUND,
        Code::IdempotencyConflict => StatusCode::CONFLICT,
        Code::Unauthorized => StatusCode::UNAUTHORIZED,
        Code::Unsupported => StatusCode::NOT_IMPLEMENTED,
        // Corrupt states, wrong configurations, and codes that are not known yet.
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn json(status: StatusCode, kind: HeaderValue, body: &impl Serialize) -> Response {
    // Plain structures of numbers and text always become JSON.
    let body = serde_json::to_vec(body).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}
