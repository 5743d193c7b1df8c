//! The dialects in use, each with the revision that it is pinned to.

use core::cmp::Reverse;
use core::fmt::{self, Write};

use http::{HeaderMap, HeaderName};
use tollgate::Limit;

use super::{Reading, draft_06_policy, draft_11_policy, insert, write_draft_11};
use crate::subject::Subject;

const DRAFT_06: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];
const X_RATELIMIT: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// How a quota is stated in headers. None of them is a standard yet: each is pinned to a revision.
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

/// What `X-RateLimit-Reset` means: services disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reset {
    /// Seconds from now.
    Seconds,
    /// Seconds since the epoch.
    Epoch,
}

impl Dialect {
    /// Whether a response cannot speak both.
    pub(super) fn shares_a_field_with(self, other: Self) -> bool {
        let fields = |dialect| match dialect {
            Self::Draft11 | Self::Draft07 => (true, true, false, false),
            Self::Draft06 => (false, true, true, false),
            Self::XRateLimit(_) | Self::Polli03 => (false, false, false, true),
        };
        let ((a, b, c, d), (w, x, y, z)) = (fields(self), fields(other));
        a && w || b && x || c && y || d && z
    }

    /// The value of `RateLimit-Policy`, in the dialects that have it.
    pub(super) fn policy(self, limits: &[&Limit]) -> Option<String> {
        match self {
            Self::Draft11 => Some(draft_11_policy(limits)),
            Self::Draft07 | Self::Draft06 => Some(draft_06_policy(limits)),
            Self::XRateLimit(_) | Self::Polli03 => None,
        }
    }

    pub(super) fn write(self, readings: &[Reading<'_>], headers: &mut HeaderMap) {
        // All but the first have room for one limit: the one that is closest to its end.
        let closest = |one: &&Reading<'_>| (one.remaining, Reverse(one.wait_s));
        let Some(one) = readings.iter().min_by_key(closest) else { return };
        match self {
            Self::Draft11 => write_draft_11(readings, headers),
            Self::Draft07 => {
                let mut text = Subject::default();
                let Reading { limit, remaining, wait_s, .. } = one;
                let _ = write!(text, "limit={limit}, remaining={remaining}, reset={wait_s}");
                insert(headers, super::RATELIMIT, &text);
            }
            Self::Draft06 => triple(headers, DRAFT_06, &number(one.limit), one, one.wait_s),
            Self::XRateLimit(Reset::Seconds) => {
                triple(headers, X_RATELIMIT, &number(one.limit), one, one.wait_s);
            }
            Self::XRateLimit(Reset::Epoch) => {
                triple(headers, X_RATELIMIT, &number(one.limit), one, one.wait_until_s);
            }
            Self::Polli03 => {
                triple(headers, X_RATELIMIT, &polli_03_limit(one, readings), one, one.wait_s);
            }
        }
    }
}

/// `10, 10;w=1;name="per-ip", 1000;w=3600;name="daily"`: the closest one, then all of them.
fn polli_03_limit(closest: &Reading<'_>, readings: &[Reading<'_>]) -> Subject {
    let mut limit = number(closest.limit);
    for reading in readings {
        let _ = write!(limit, ", {}", reading.limit);
        if let Some(window) = reading.window_s {
            let _ = write!(limit, ";w={window}");
        }
        let _ = write!(limit, ";name=\"{}\"", reading.policy);
    }
    limit
}

fn number(number: u64) -> Subject {
    let mut text = Subject::default();
    text.push_number(number);
    text
}

fn triple(
    headers: &mut HeaderMap,
    names: [HeaderName; 3],
    limit: &Subject,
    reading: &Reading<'_>,
    reset: u64,
) {
    let [limit_name, remaining_name, reset_name] = names;
    insert(headers, limit_name, limit);
    insert(headers, remaining_name, &number(reading.remaining));
    insert(headers, reset_name, &number(reset));
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
