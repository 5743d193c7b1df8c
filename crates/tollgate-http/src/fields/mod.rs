//! The `RateLimit` fields of a response, in one or several dialects.
//!
//! All numbers are whole seconds and bounded integers, as structured fields (RFC 9651) have them.
//! Waits are rounded up, so a client that waits as long as a field says is not too early. A window
//! that is no whole number of seconds is left out: the parameter `w` is optional and holds
//! integers, and a rounded window would state another rate than the one that is enforced.
//!
//! The fields of the current draft are the default. Older dialects are opt-in, because clients
//! disagree about the meaning of their numbers.

mod dialect;

use http::{HeaderMap, HeaderValue};
use tollgate_core::{Decision, Error, Limit, Result};

use crate::names::RATELIMIT_POLICY;
use crate::short_text::ShortText;

pub use dialect::{Dialect, Reset};

/// The largest integer of a structured field (RFC 9651).
const INTEGER_MAX: u64 = 999_999_999_999_999;
const MICROS_PER_S: u64 = 1_000_000;
const MS_PER_S: u64 = 1_000;

/// A limit as `RateLimit-Policy` states it: name, units and window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaPolicy<'a> {
    name: &'a str,
    units: u64,
    /// Absent when the window is no whole number of seconds.
    window_s: Option<u64>,
}

impl<'a> QuotaPolicy<'a> {
    /// A limit under the name that clients know. Names of limits hold letters, digits, `_`, `.` and
    /// `-`, which need no escapes.
    #[must_use]
    pub fn new(name: &'a str, limit: &Limit) -> Self {
        let (units, window) = (limit.rule().ceiling().min(INTEGER_MAX), limit.rule().window());
        let is_whole = window > 0 && window.is_multiple_of(MICROS_PER_S);
        Self { name, units, window_s: is_whole.then_some(window / MICROS_PER_S) }
    }
}

/// A limit under its own name.
impl<'a> From<&'a Limit> for QuotaPolicy<'a> {
    fn from(limit: &'a Limit) -> Self {
        Self::new(limit.policy().as_str(), limit)
    }
}

/// A limit after a decision, as the fields of a response state it.
#[derive(Clone, Copy, Debug)]
pub struct LimitFields<'a> {
    policy: QuotaPolicy<'a>,
    limit: u64,
    remaining: u64,
    /// Seconds until the request may be sent again if it was denied, else until the key is full.
    wait_s: u64,
    /// The end of that wait, in seconds since the epoch.
    wait_until_s: u64,
}

impl<'a> LimitFields<'a> {
    /// `own` is the decision of this limit alone, whatever other limits of the request decided. So
    /// a limit that allowed a request which another one denied states when it is full again, and
    /// `Retry-After`, which takes precedence for clients, may be earlier than that.
    #[must_use]
    pub fn new(policy: QuotaPolicy<'a>, own: &Decision, now_ms: u64) -> Self {
        let until_full_ms = || own.reset_at_ms.saturating_sub(now_ms);
        let wait_ms = match own.retry_after_ms {
            Some(retry_ms) if !own.is_allowed() => retry_ms,
            _ => until_full_ms(),
        };
        Self {
            policy,
            limit: own.limit.min(INTEGER_MAX),
            remaining: own.remaining.min(INTEGER_MAX),
            wait_s: wait_ms.div_ceil(MS_PER_S).min(INTEGER_MAX),
            wait_until_s: now_ms.saturating_add(wait_ms).div_ceil(MS_PER_S).min(INTEGER_MAX),
        }
    }
}

/// Writes the fields of one or several dialects. `RateLimit-Policy` is laid out once.
///
/// ```
/// use http::HeaderMap;
/// use tollgate_core::algorithm::Gcra;
/// use tollgate_core::{Decision, Limit, Quota};
/// use tollgate_http::{LimitFields, QuotaPolicy, RateLimitFields};
///
/// let limit = Limit::new("per-ip", Gcra::new(Quota::per_minute(100))?)?;
/// let policy = QuotaPolicy::from(&limit);
/// let (now_ms, full_at_ms) = (1_000, 31_000);
/// let decision = Decision::allowed(100, 50, full_at_ms);
///
/// let mut headers = HeaderMap::new();
/// let state = LimitFields::new(policy, &decision, now_ms);
/// RateLimitFields::draft_11(&[policy]).write(&[state], &mut headers);
/// assert_eq!(headers["ratelimit-policy"], "\"per-ip\";q=100;w=60");
/// assert_eq!(headers["ratelimit"], "\"per-ip\";r=50;t=30");
/// # Ok::<(), tollgate_core::Error>(())
/// ```
///
/// The default writes no field.
#[derive(Clone, Debug, Default)]
pub struct RateLimitFields {
    dialects: Vec<Dialect>,
    policy: Option<HeaderValue>,
}

impl RateLimitFields {
    /// The fields of the current draft.
    #[must_use]
    pub fn draft_11(policies: &[QuotaPolicy<'_>]) -> Self {
        Self { dialects: vec![Dialect::Draft11], policy: Dialect::Draft11.policy(policies) }
    }

    /// The fields of several dialects.
    ///
    /// # Errors
    /// `config_invalid` with the field `headers` when two dialects use one field.
    pub fn new(dialects: Vec<Dialect>, policies: &[QuotaPolicy<'_>]) -> Result<Self> {
        for (index, one) in dialects.iter().enumerate() {
            let mut others = dialects.iter().take(index);
            if let Some(other) = others.find(|other| other.shares_a_field_with(*one)) {
                let message = format!("{other} and {one} share a field; accepted: one of them");
                return Err(Error::config("headers", message));
            }
        }
        let policy = dialects.iter().find_map(|dialect| dialect.policy(policies));
        Ok(Self { dialects, policy })
    }

    /// Whether no field is written.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.dialects.is_empty()
    }

    /// Sets the fields of every dialect. Fields that are already there are replaced.
    pub fn write(&self, limits: &[LimitFields<'_>], headers: &mut HeaderMap) {
        if let Some(policy) = &self.policy {
            headers.insert(RATELIMIT_POLICY, policy.clone());
        }
        for dialect in &self.dialects {
            dialect.write(limits, headers);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use tollgate_core::Quota;
    use tollgate_core::algorithm::{Anchor, FixedWindow, Gcra};

    use super::*;

    fn gcra(units: u64, period: Duration) -> Limit {
        Limit::new("p", Gcra::new(Quota::new(units, period)).unwrap()).unwrap()
    }

    fn policy_field(limit: &Limit) -> String {
        let fields = RateLimitFields::draft_11(&[QuotaPolicy::new("p", limit)]);
        let mut headers = HeaderMap::new();
        fields.write(&[], &mut headers);
        headers["ratelimit-policy"].to_str().unwrap().to_owned()
    }

    /// The draft knows whole seconds only, and `w` is optional.
    #[test]
    fn a_window_is_stated_if_it_is_a_whole_number_of_seconds() {
        for (period_ms, field) in [
            (1_000, "\"p\";q=10;w=1"),
            (86_400_000, "\"p\";q=10;w=86400"),
            (500, "\"p\";q=10"),
            (1_500, "\"p\";q=10"),
            (60_001, "\"p\";q=10"),
        ] {
            let limit = gcra(10, Duration::from_millis(period_ms));
            assert_eq!(policy_field(&limit), field);
        }
        let thirds = Gcra::with_burst(Quota::per_second(3), 10).unwrap();
        let thirds = Limit::new("p", thirds).unwrap();
        assert_eq!(policy_field(&thirds), "\"p\";q=10", "10 units take 3 1/3 seconds");
        let window = FixedWindow::new(Quota::per_minute(7), Anchor::Epoch).unwrap();
        assert_eq!(policy_field(&Limit::new("p", window).unwrap()), "\"p\";q=7;w=60");
    }

    #[test]
    fn numbers_are_whole_seconds_and_bounded() {
        let limit = gcra(10, Duration::from_secs(1));
        let policy = QuotaPolicy::new("p", &limit);
        let stated = |decision: &Decision, now_ms| {
            let mut headers = HeaderMap::new();
            let limits = [LimitFields::new(policy, decision, now_ms)];
            RateLimitFields::draft_11(&[policy]).write(&limits, &mut headers);
            headers["ratelimit"].to_str().unwrap().to_owned()
        };
        assert_eq!(stated(&Decision::allowed(10, 9, 5_001), 4_000), "\"p\";r=9;t=2");
        assert_eq!(stated(&Decision::denied(10, 0, 9_000, 1), 4_000), "\"p\";r=0;t=1");
        let largest = "\"p\";r=999999999999999;t=999999999999999";
        assert_eq!(stated(&Decision::allowed(10, u64::MAX, u64::MAX), 0), largest);
    }
}
