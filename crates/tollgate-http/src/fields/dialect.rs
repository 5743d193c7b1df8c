//! The dialects in use, each with the revision that it follows.

use core::cmp::Reverse;
use core::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{LimitFields, QuotaPolicy, ShortText};
use crate::names::{DRAFT_06, RATELIMIT, X_RATELIMIT};

/// How a quota is stated in headers. None of them is a standard yet: each follows one revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// `RateLimit: "per-ip";r=50;t=30` and `RateLimit-Policy: "per-ip";q=100;w=60`, as in
    /// draft-ietf-httpapi-ratelimit-headers-11. Every limit is stated. The default.
    Draft11,
    /// `RateLimit: limit=100, remaining=50, reset=30`, as in draft 07.
    Draft07,
    /// `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`, as in drafts 00 to 06.
    Draft06,
    /// `X-RateLimit-Limit`, `-Remaining`, `-Reset`, as many services have them.
    XRateLimit(Reset),
    /// The same fields as Envoy writes them, with every quota in the first (draft-polli-03).
    Polli03,
}

/// The meaning of `X-RateLimit-Reset`, on which services disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reset {
    /// Seconds from now.
    Seconds,
    /// Seconds since the epoch.
    Epoch,
}

impl Dialect {
    /// Whether one response cannot have both.
    pub(super) fn shares_a_field_with(self, other: Self) -> bool {
        // `RateLimit-Policy` is in all drafts, so they exclude each other.
        let is_draft = |one| matches!(one, Self::Draft11 | Self::Draft07 | Self::Draft06);
        is_draft(self) == is_draft(other)
    }

    /// `RateLimit-Policy`, in the dialects that have it: `"per-ip";q=100;w=60, "daily";q=1000`, and
    /// `100;w=60, 1000` in drafts 04 to 07.
    pub(super) fn policy(self, policies: &[QuotaPolicy<'_>]) -> Option<HeaderValue> {
        let is_named = match self {
            Self::Draft11 => true,
            Self::Draft07 | Self::Draft06 => false,
            Self::XRateLimit(_) | Self::Polli03 => return None,
        };
        let mut line = ShortText::default();
        for (index, policy) in policies.iter().enumerate() {
            line.push(if index > 0 { ", " } else { "" });
            if is_named {
                line.push("\"").push(policy.name).push("\";q=");
            }
            line.number(policy.units);
            window(&mut line, policy);
        }
        line.header_value()
    }

    pub(super) fn write(self, limits: &[LimitFields<'_>], headers: &mut HeaderMap) {
        // All dialects but the first state one limit: the one with the least left.
        let closest = |limit: &&LimitFields<'_>| (limit.remaining, Reverse(limit.wait_s));
        let Some(one) = limits.iter().min_by_key(closest) else { return };
        let mut line = ShortText::default();
        match self {
            Self::Draft11 => {
                draft_11(limits, &mut line);
                insert(headers, RATELIMIT, &line);
            }
            Self::Draft07 => {
                line.push("limit=").number(one.limit).push(", remaining=").number(one.remaining);
                line.push(", reset=").number(one.wait_s);
                insert(headers, RATELIMIT, &line);
            }
            Self::Draft06 => triple(headers, DRAFT_06, line.number(one.limit), one, one.wait_s),
            Self::XRateLimit(reset) => {
                let reset = match reset {
                    Reset::Seconds => one.wait_s,
                    Reset::Epoch => one.wait_until_s,
                };
                triple(headers, X_RATELIMIT, line.number(one.limit), one, reset);
            }
            Self::Polli03 => {
                polli_03_limit(one, limits, &mut line);
                triple(headers, X_RATELIMIT, &line, one, one.wait_s);
            }
        }
    }
}

/// `"per-ip";r=50;t=30, "daily";r=900;t=3600`.
fn draft_11(limits: &[LimitFields<'_>], line: &mut ShortText) {
    for (index, limit) in limits.iter().enumerate() {
        line.push(if index > 0 { ", \"" } else { "\"" }).push(limit.policy.name);
        line.push("\";r=").number(limit.remaining).push(";t=").number(limit.wait_s);
    }
}

/// `10, 10;w=1;name="per-ip", 1000;w=3600;name="daily"`: the closest limit, then all of them.
fn polli_03_limit(closest: &LimitFields<'_>, limits: &[LimitFields<'_>], line: &mut ShortText) {
    line.number(closest.limit);
    for limit in limits {
        line.push(", ").number(limit.limit);
        window(line, &limit.policy);
        line.push(";name=\"").push(limit.policy.name).push("\"");
    }
}

fn window(line: &mut ShortText, policy: &QuotaPolicy<'_>) {
    if let Some(window_s) = policy.window_s {
        line.push(";w=").number(window_s);
    }
}

fn triple(
    headers: &mut HeaderMap,
    names: [HeaderName; 3],
    limit: &ShortText,
    one: &LimitFields<'_>,
    reset: u64,
) {
    let [limit_name, remaining_name, reset_name] = names;
    insert(headers, limit_name, limit);
    insert(headers, remaining_name, ShortText::default().number(one.remaining));
    insert(headers, reset_name, ShortText::default().number(reset));
}

fn insert(headers: &mut HeaderMap, name: HeaderName, line: &ShortText) {
    if let Some(value) = line.header_value() {
        headers.insert(name, value);
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Draft11 => "draft 11",
            Self::Draft07 => "draft 07",
            Self::Draft06 => "draft 06",
            Self::XRateLimit(_) => "X-RateLimit",
            Self::Polli03 => "draft-polli-03",
        })
    }
}
