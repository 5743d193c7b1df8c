//! The most that a policy may have admitted while the load ran: the server returns its limits
//! before, and the bound is computed with integers after.
//!
//! Times are those of the clock that decides. A key that was never charged is full *now*, so
//! peeking at one returns the time of that clock, rounded up to a millisecond.

use serde_json::{Value, json};
use tollgate::algorithm::{Anchor, Renewal};

use crate::args::Server;
use crate::cmd::Failed;
use crate::cmd::client::send;

/// Microseconds of a millisecond.
pub(super) const MILLI: u64 = 1_000;
/// How many keys are tried until one is found that was never charged.
const TRIES: u32 = 8;

/// A limit, as `/v1/limits` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    renewal: Renewal,
    ceiling: u64,
    units: u64,
    period_us: u64,
}

/// The limits of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    all: Vec<Limit>,
    /// The policy never denies.
    pub(super) shadow: bool,
}

impl Limits {
    /// Requests the limits of a key from a server.
    pub(super) async fn fetch(server: &Server, policy: &str, key: &str) -> Result<Self, Failed> {
        let body = json!({"policy": policy, "key": key}).to_string();
        let reply = send(server, "/v1/limits", body).await?;
        let all = reply.get("limits").and_then(Value::as_array).ok_or("no limits in the reply")?;
        let all = all.iter().map(Limit::parse).collect::<Result<Vec<_>, _>>()?;
        let shadow = reply.get("shadow").and_then(Value::as_bool).unwrap_or(false);
        Ok(Self { all, shadow })
    }

    /// The most units that one key may have been granted from one instant to another.
    pub(super) fn bound(&self, from_us: u64, to_us: u64) -> u64 {
        let each = self.all.iter().map(|limit| limit.bound(from_us, to_us));
        each.min().unwrap_or(u64::MAX)
    }
}

impl Limit {
    fn parse(value: &Value) -> Result<Self, String> {
        let whole = |name: &str| value.get(name).and_then(Value::as_u64).filter(|n| *n > 0);
        let parsed = || {
            let (ceiling, units) = (whole("limit")?, whole("units")?);
            Some(Self { renewal: renewal(value)?, ceiling, units, period_us: whole("period_us")? })
        };
        // A wrong bound would be worse than none.
        parsed().ok_or_else(|| format!("a limit of the server is not known here: {value}"))
    }

    fn bound(self, from_us: u64, to_us: u64) -> u64 {
        let Self { renewal, ceiling, units, period_us } = self;
        let (ceiling, period) = (u128::from(ceiling), u128::from(period_us));
        let time = u128::from(to_us.saturating_sub(from_us));
        // Windows or buckets of a length, aligned to the epoch, that the time touches.
        let touched = |length: u64| u128::from(to_us / length - from_us / length + 1);
        let bound = match renewal {
            // A full key grants the ceiling at once, and then what comes back.
            Renewal::Steady => ceiling + time * u128::from(units) / period,
            Renewal::Window(Anchor::Epoch) => ceiling * touched(period_us),
            Renewal::Window(Anchor::FirstHit) | Renewal::Rolling => ceiling * (time / period + 1),
            // As many buckets in a row as a window has never hold more than the ceiling.
            Renewal::Buckets(buckets) => {
                let bucket_us = (period_us / buckets.max(1)).max(1);
                ceiling * touched(bucket_us).div_ceil(u128::from(buckets.max(1)))
            }
            Renewal::Unstated => u128::MAX,
        };
        u64::try_from(bound).unwrap_or(u64::MAX)
    }
}

/// How spent units come back; `None` for a text that is not known here.
fn renewal(value: &Value) -> Option<Renewal> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let buckets = || value.get("buckets").and_then(Value::as_u64);
    let anchor = || match text("anchor")? {
        "epoch" => Some(Anchor::Epoch),
        "first_hit" => Some(Anchor::FirstHit),
        _ => None,
    };
    let all = [
        Some(Renewal::Steady),
        anchor().map(Renewal::Window),
        buckets().map(Renewal::Buckets),
        Some(Renewal::Rolling),
        Some(Renewal::Unstated),
    ];
    let stated = text("renewal")?;
    all.into_iter().flatten().find(|renewal| renewal.as_str() == stated)
}

/// The time of the clock that decides, in microseconds; at most [`MILLI`] late.
pub(super) async fn time(server: &Server, policy: &str, key: &str) -> Result<u64, Failed> {
    for number in 0..TRIES {
        let key = format!("{key}-clock-{number}");
        let body = json!({"policy": policy, "key": key}).to_string();
        let reply = send(server, "/v1/peek", body).await?;
        let whole = |name: &str| reply.get(name).and_then(Value::as_u64);
        let (at_ms, left, limit) = (whole("reset_at_ms"), whole("remaining"), whole("limit"));
        // With a hash of few bits, a new key may share the budget of one that was charged.
        if let (Some(at_ms), true) = (at_ms, left == limit && reply.get("degraded").is_none()) {
            return Ok(at_ms.saturating_mul(MILLI));
        }
    }
    Err("the time of the server is not known: no uncharged key, or no store".into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tollgate::algorithm::{Anchor, Renewal};

    use super::{Limit, Limits};

    const SECOND: u64 = 1_000_000;

    fn limit(renewal: Renewal, ceiling: u64, units: u64, period_us: u64) -> Limit {
        Limit { renewal, ceiling, units, period_us }
    }

    #[test]
    fn each_renewal_has_its_bound() {
        let bucket = limit(Renewal::Steady, 10, 1, SECOND);
        assert_eq!(bucket.bound(0, 0), 10);
        assert_eq!(bucket.bound(7, 7 + 3 * SECOND - 1), 12);
        assert_eq!(bucket.bound(7, 7 + 3 * SECOND), 13);
        let fixed = limit(Renewal::Window(Anchor::Epoch), 10, 10, SECOND);
        assert_eq!(fixed.bound(SECOND - 1, SECOND - 1), 10);
        assert_eq!(fixed.bound(SECOND - 1, SECOND), 20);
        let first = Limit { renewal: Renewal::Window(Anchor::FirstHit), ..fixed };
        assert_eq!(first.bound(SECOND - 1, SECOND), 10);
        assert_eq!(first.bound(5, 5 + SECOND), 20);
        let log = limit(Renewal::Rolling, 10, 10, SECOND);
        assert_eq!((log.bound(5, 4 + SECOND), log.bound(5, 5 + SECOND)), (10, 20));
        let sliding = limit(Renewal::Buckets(4), 10, 10, 4 * SECOND);
        assert_eq!(sliding.bound(0, 4 * SECOND - 1), 10);
        assert_eq!(sliding.bound(0, 4 * SECOND), 20);
        assert_eq!(limit(Renewal::Unstated, 1, 1, 1).bound(0, 9), u64::MAX);
        let both = Limits { all: vec![bucket, fixed], shadow: false };
        assert_eq!((both.bound(0, SECOND), both.bound(0, 30 * SECOND)), (11, 40));
    }

    #[test]
    fn a_renewal_is_parsed_with_its_numbers_and_an_unknown_one_is_refused() {
        let parse = |value: &Value| super::renewal(value);
        assert_eq!(parse(&json!({"renewal": "steady"})), Some(Renewal::Steady));
        let buckets = json!({"renewal": "buckets", "buckets": 4});
        assert_eq!(parse(&buckets), Some(Renewal::Buckets(4)));
        let window = json!({"renewal": "window", "anchor": "first_hit"});
        assert_eq!(parse(&window), Some(Renewal::Window(Anchor::FirstHit)));
        for value in [json!({}), json!({"renewal": "new"}), json!({"renewal": "buckets"})] {
            assert_eq!(parse(&value), None, "{value}");
        }
    }
}
