//! The earliest time of the next request, as a response states it: `Retry-After`, or the
//! `RateLimit` fields of any dialect.
//!
//! Fields that are malformed are ignored, as are those of cached responses.

use std::time::UNIX_EPOCH;

use http::{HeaderMap, HeaderName, StatusCode, header};
use tollgate_core::Micros;

use crate::fields::Reset;
use crate::names::{DRAFT_06, RATELIMIT, X_RATE_LIMIT, X_RATELIMIT};
use crate::structured::{Member, integer, members};

const SECOND: Micros = 1_000_000;
/// The fields of the older dialects. Those of the first count from now.
const TRIPLES: [[HeaderName; 3]; 3] = [DRAFT_06, X_RATELIMIT, X_RATE_LIMIT];
/// Numbers from here on are instants instead of delays: in seconds, in milliseconds.
const EPOCH_FROM_S: u64 = 1_000_000_000;
const EPOCH_FROM_MS: u64 = 1_000_000_000_000;

/// The earliest time of the next request; `None` when it may be sent at once. `Retry-After` takes
/// precedence over all other fields.
///
/// `x_reset` is the meaning of `X-RateLimit-Reset`, if it is known. Without it, large numbers are
/// read as instants and small ones as delays.
///
/// ```
/// use http::{HeaderMap, HeaderValue, StatusCode};
/// use tollgate_http::rate_limit_hints::not_before;
///
/// let now = 1_700_000_000_000_000; // microseconds since the epoch
/// let mut headers = HeaderMap::new();
/// headers.insert("ratelimit", HeaderValue::from_static("\"per-ip\";r=0;t=30"));
/// assert_eq!(not_before(StatusCode::OK, &headers, now, None), Some(now + 30_000_000));
/// ```
#[must_use]
pub fn not_before(
    status: StatusCode,
    headers: &HeaderMap,
    now: Micros,
    x_reset: Option<Reset>,
) -> Option<Micros> {
    let refused = !(status.is_success() || status.is_informational());
    if refused
        && let Some(until) = text(headers, &header::RETRY_AFTER).and_then(|t| retry_after(t, now))
    {
        return Some(until).filter(|until| *until > now);
    }
    // The fields of a cached response are out of date.
    let age = text(headers, &header::AGE).and_then(integer).unwrap_or(0);
    if age > 0 {
        return None;
    }
    let seconds = |wait: u64| now.saturating_add(wait.saturating_mul(SECOND));
    let until = match joined(headers, &RATELIMIT) {
        Some(field) => ratelimit(&field).map(seconds),
        None => TRIPLES.iter().find_map(|names| triple(headers, names, now, x_reset)),
    };
    until.filter(|until| *until > now)
}

/// Seconds, or a date.
fn retry_after(text: &str, now: Micros) -> Option<Micros> {
    if let Some(wait) = integer(text) {
        return Some(now.saturating_add(wait.saturating_mul(SECOND)));
    }
    let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(date.as_micros()).ok()
}

/// Seconds to wait by `RateLimit`, in the drafts from 07 on.
fn ratelimit(field: &str) -> Option<u64> {
    let members = members(field)?;
    let dictionary = |name: &str| -> Option<Option<u64>> {
        let named = members.iter().map(|member| member.named(name));
        named.collect::<Option<Vec<_>>>().map(|found| found.into_iter().flatten().last())
    };
    if let (Some(remaining), Some(reset)) = (dictionary("remaining")?, dictionary("reset")?) {
        return (remaining == 0).then_some(reset);
    }
    // The longest window of the limits with nothing left. A proposed revision renames `r` and `t`
    // to `a` and `w`.
    let spent = |member: &Member<'_>| -> Option<Option<u64>> {
        let (left, window) = (member.parameter(&["r", "a"])?, member.parameter(&["t", "w"])?);
        Some(window.filter(|_| left == Some(0)))
    };
    let waits = members.iter().map(spent).collect::<Option<Vec<_>>>()?;
    waits.into_iter().flatten().max()
}

/// `…-Remaining` and `…-Reset`: of the older drafts, of Envoy, of many services.
fn triple(
    headers: &HeaderMap,
    [_, remaining, reset]: &[HeaderName; 3],
    now: Micros,
    x_reset: Option<Reset>,
) -> Option<Micros> {
    let left = first_number(&joined(headers, remaining)?)?;
    if left > 0 {
        return None;
    }
    let text = joined(headers, reset)?;
    let from_now = |wait: u64| now.saturating_add(wait.saturating_mul(SECOND));
    let Some(number) = first_number(&text) else { return iso_8601(text.trim()) };
    let meaning = if reset.as_str().starts_with('x') { x_reset } else { Some(Reset::Seconds) };
    Some(match meaning {
        Some(Reset::Seconds) => from_now(number),
        Some(Reset::Epoch) => number.saturating_mul(SECOND),
        // A delay of thirty years is none.
        None if number >= EPOCH_FROM_MS => number.saturating_mul(SECOND / 1_000),
        None if number >= EPOCH_FROM_S => number.saturating_mul(SECOND),
        None => from_now(number),
    })
}

/// The first number of a field, rounded up.
fn first_number(text: &str) -> Option<u64> {
    let first = text.split([',', ';']).next()?.trim();
    match first.split_once('.') {
        Some((whole, fraction)) => {
            let is_whole = integer(fraction)? == 0;
            Some(integer(whole)? + u64::from(!is_whole))
        }
        None => integer(first),
    }
}

/// `2026-11-15T13:00:00Z`, with a fraction of a second or without, in UTC.
fn iso_8601(text: &str) -> Option<Micros> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, ':')?;
    let in_range = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !in_range {
        return None;
    }
    // Days since the epoch, with years that start in March, so that the leap day comes last.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    let rounded_up = u64::from(integer(fraction)? > 0);
    Some((seconds + rounded_up) * SECOND)
}

fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let mut parts = text.split(separator).map(integer);
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// All lines of a field as one.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines: Option<Vec<&str>> =
        headers.get_all(name).iter().map(|line| line.to_str().ok()).collect();
    lines.filter(|lines| !lines.is_empty()).map(|lines| lines.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2023-11-14T22:13:20Z.
    const NOW: Micros = 1_700_000_000 * SECOND;

    type Lines<'a> = &'a [(&'static str, &'a str)];

    fn wait_s(status: u16, lines: Lines<'_>) -> Option<u64> {
        wait_by(status, lines, None)
    }

    fn wait_by(status: u16, lines: Lines<'_>, x_reset: Option<Reset>) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        let status = StatusCode::from_u16(status).unwrap();
        not_before(status, &headers, NOW, x_reset).map(|until| (until - NOW) / SECOND)
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        for (value, wait) in [
            ("30", Some(30)),
            ("0", None),
            ("Tue, 14 Nov 2023 22:13:50 GMT", Some(30)),
            ("Tuesday, 14-Nov-23 22:13:50 GMT", Some(30)),
            ("Tue, 14 Nov 2023 22:13:00 GMT", None),
            ("soon", None),
            ("2.0", None),
            ("-1", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(wait_s(429, &[("retry-after", value)]), wait, "{value}");
            assert_eq!(wait_s(503, &[("retry-after", value)]), wait, "{value}");
            assert_eq!(wait_s(200, &[("retry-after", value)]), None, "{value}: it was not refused");
        }
    }

    #[test]
    fn retry_after_takes_precedence() {
        let lines =
            [("retry-after", "3"), ("ratelimit", "\"p\";r=0;t=60"), ("x-ratelimit-remaining", "0")];
        assert_eq!(wait_s(429, &lines), Some(3));
    }

    #[test]
    fn every_dialect_is_read() {
        let cases: [(Lines<'_>, Option<u64>); 15] = [
            (&[("ratelimit", "\"default\";r=0;t=30")], Some(30)),
            (&[("ratelimit", "\"default\";r=50;t=30")], None),
            (
                &[("ratelimit", "\"burst\";r=0;t=5, \"daily\";r=0;t=80;pk=:cGs=:, \"x\";r=9;t=99")],
                Some(80),
            ),
            (&[("ratelimit", "\"a\";r=0;t=5"), ("ratelimit", "\"b\";r=0;t=6")], Some(6)),
            (&[("ratelimit", "default;r=0;t=30")], Some(30)),
            (&[("ratelimit", "\"default\";a=0;w=30")], Some(30)),
            (&[("ratelimit", "limit=100, remaining=0, reset=5")], Some(5)),
            (&[("ratelimit", "limit=100, remaining=1, reset=5")], None),
            (
                &[
                    ("ratelimit-limit", "100"),
                    ("ratelimit-remaining", "0"),
                    ("ratelimit-reset", "7"),
                ],
                Some(7),
            ),
            (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "7")], Some(7)),
            (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "6.2")], Some(7)),
            (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1700000009")], Some(9)),
            (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1700000009000")], Some(9)),
            (
                &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "2023-11-14T22:13:29Z")],
                Some(9),
            ),
            (&[("x-rate-limit-remaining", "0"), ("x-rate-limit-reset", "4")], Some(4)),
        ];
        for (lines, wait) in cases {
            assert_eq!(wait_s(200, lines), wait, "{lines:?}");
            assert_eq!(wait_s(429, lines), wait, "{lines:?}");
        }
        let envoy = [
            ("x-ratelimit-limit", "10, 10;w=1;name=\"per-ip\", 1000;w=3600"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1"),
        ];
        assert_eq!(wait_s(429, &envoy), Some(1));
        let small_epoch = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "900000000")];
        assert_eq!(wait_by(429, &small_epoch, Some(Reset::Epoch)), None, "in the past");
        assert_eq!(wait_by(429, &small_epoch, Some(Reset::Seconds)), Some(900_000_000));
    }

    #[test]
    fn what_is_malformed_or_cached_is_ignored() {
        for value in
            ["", "\"a;r=0;t=5", "\"a\";r=0;t=-5", "\"a\";r=x;t=5", "\"a\";r=0", ",", "remaining=0"]
        {
            assert_eq!(wait_s(429, &[("ratelimit", value)]), None, "{value}");
        }
        let cached = [("age", "3"), ("ratelimit", "\"a\";r=0;t=5")];
        assert_eq!(wait_s(200, &cached), None);
        let fresh = [("age", "0"), ("ratelimit", "\"a\";r=0;t=5")];
        assert_eq!(wait_s(200, &fresh), Some(5));
    }

    #[test]
    fn dates_are_counted_as_calendars_do() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T23:59:59Z", Some(951_868_799)),
            ("2023-11-14T22:13:20Z", Some(1_700_000_000)),
            ("2023-11-14T22:13:20.001Z", Some(1_700_000_001)),
            ("2100-03-01T00:00:00Z", Some(4_107_542_400)),
            ("2023-13-01T00:00:00Z", None),
            ("1969-12-31T23:59:59Z", None),
            ("2023-11-14 22:13:20Z", None),
            ("2023-11-14T22:13Z", None),
            ("2023-11-14T22:13:20+01:00", None),
        ] {
            assert_eq!(iso_8601(text).map(|at| at / SECOND), seconds, "{text}");
        }
    }
}
