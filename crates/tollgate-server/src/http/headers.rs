//! The rate limit fields of a reply: draft-ietf-httpapi-ratelimit-headers-11, and `Retry-After`.

use std::fmt::Write;

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use tollgate::Verdict;

use crate::engine::Answer;
use crate::policy::Policy;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");
/// The largest integer of a structured field (RFC 9651).
const INTEGER_MAX: u64 = 999_999_999_999_999;

/// Says what the limits are, what is left, and when to come back.
pub(super) fn tell(
    headers: &mut HeaderMap,
    (policy, key): (&Policy, &str),
    answer: &Answer,
    now_ms: u64,
) {
    let decision = &answer.decision;
    let mut limits = String::new();
    for limit in policy.shown(key) {
        let comma = if limits.is_empty() { "" } else { ", " };
        let (units, window) = (limit.units.min(INTEGER_MAX), limit.window_s.clamp(1, INTEGER_MAX));
        // Names hold letters, digits, `_`, `.` and `-` only: nothing to escape.
        let _never = write!(limits, "{comma}\"{}\";q={units};w={window}", limit.name);
    }
    let wait_ms = match decision.verdict {
        Verdict::Denied => decision.retry_after_ms.unwrap_or(0),
        // The key is full again then: no more than what is left is promised until that time.
        Verdict::Allowed | Verdict::Never => decision.reset_at_ms.saturating_sub(now_ms),
    };
    let name = decision.binding.as_ref().unwrap_or(&answer.policy);
    let (left, within) = (decision.remaining.min(INTEGER_MAX), wait_ms.div_ceil(1_000));
    let state = format!("\"{name}\";r={left};t={}", within.min(INTEGER_MAX));
    for (field, value) in [(POLICY, limits), (STATE, state)] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(field, value);
        }
    }
    if decision.verdict == Verdict::Denied {
        headers.insert(RETRY_AFTER, HeaderValue::from(within));
    }
}
