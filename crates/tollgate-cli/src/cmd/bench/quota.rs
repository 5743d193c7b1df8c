//! How much a policy may have admitted while a load ran: asked of the server before, computed with
//! integers after.
//!
//! The clock is the one that decides: a key that nobody has touched is full *now*, so looking at one
//! tells the time there, rounded up to a millisecond.

use serde_json::{Value, json};
use tollgate::algorithm::{Anchor, Renewal};

use crate::args::Server;
use crate::cmd::Failed;
use crate::cmd::client::send;

/// Microseconds of a millisecond.
const MILLI: u64 = 1_000;
/// How many fresh keys are tried until one is found that nobody has touched.
const TRIES: u32 = 8;

/// A limit in numbers, as the server tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) renewal: Renewal,
    pub(super) limit: u64,
    pub(super) units: u64,
    pub(super) period_us: u64,
}

/// The limits of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) all: Vec<Limit>,
    /// Never denies.
    pub(super) shadow: bool,
}

impl Limits {
    /// Asks a server which limits apply to a key.
    pub(super) async fn ask(server: &Server, policy: &str, key: &str) -> Result<Self, Failed> {
        let body = json!({"policy": policy, "key": key}).to_string();
        let reply = send(server, "/v1/limits", body).await?;
        let all = reply.get("limits").and_then(Value::as_array).ok_or("not understood")?;
        let all = all.iter().map(limit).collect::<Option<Vec<_>>>().ok_or("not understood")?;
        let shadow = reply.get("shadow").and_then(Value::as_bool).unwrap_or(false);
        Ok(Self { all, shadow })
    }

    /// The most units that one key may have been granted from one instant to another.
    pub(super) fn most(&self, from_us: u64, to_us: u64) -> u64 {
        let each = self.all.iter().map(|limit| limit.most(from_us, to_us));
        each.min().unwrap_or(u64::MAX)
    }
}

impl Limit {
    fn most(&self, from_us: u64, to_us: u64) -> u64 {
        let time = to_us.saturating_sub(from_us);
        let (limit, period) = (u128::from(self.limit), u128::from(self.period_us.max(1)));
        // Whole windows or buckets of a length, as the epoch cuts them, that the run has touched.
        let touched =
            |length: u64| u128::from((to_us / length.max(1)) - (from_us / length.max(1)) + 1);
        let most = match self.renewal {
            Renewal::Window(Anchor::Epoch) => limit * touched(self.period_us),
            Renewal::Window(Anchor::FirstHit) | Renewal::Rolling => {
                limit * (u128::from(time) / period + 1)
            }
            // As many buckets in a row as a window has never hold more than the limit.
            Renewal::Buckets(buckets) => {
                let buckets = buckets.max(1);
                limit * touched(self.period_us / buckets).div_ceil(u128::from(buckets))
            }
            // What a full key grants at once, and what came back meanwhile.
            Renewal::Steady => limit + u128::from(time) * u128::from(self.units) / period,
            Renewal::Unstated => u128::MAX,
        };
        u64::try_from(most).unwrap_or(u64::MAX)
    }
}

fn limit(value: &Value) -> Option<Limit> {
    let whole = |name: &str| value.get(name).and_then(Value::as_u64);
    Some(Limit {
        renewal: renewal(value)?,
        limit: whole("limit")?,
        units: whole("units")?,
        period_us: whole("period_us")?,
    })
}

/// `None` for a text that is not known here: a wrong bound would be worse than none.
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

/// The time by the clock that decides, within the millisecond that ends then, in microseconds.
pub(super) async fn time(server: &Server, policy: &str, fresh: &str) -> Result<Within, Failed> {
    for number in 0..TRIES {
        let key = format!("{fresh}-clock-{number}");
        let body = json!({"policy": policy, "key": key}).to_string();
        let reply = send(server, "/v1/peek", body).await?;
        let whole = |name: &str| reply.get(name).and_then(Value::as_u64);
        let (at_ms, left, limit) = (whole("reset_at_ms"), whole("remaining"), whole("limit"));
        // With few bits of a hash, a new key may be one that somebody has touched.
        if let (Some(at_ms), true) = (at_ms, left == limit && reply.get("degraded").is_none()) {
            return Ok(Within { until_us: at_ms.saturating_mul(MILLI) });
        }
    }
    Err("the time of the server is not known: no fresh key, or no store".into())
}

/// A reading that is at most a millisecond too late.
#[derive(Clone, Copy, Debug)]
pub(super) struct Within {
    until_us: u64,
}

impl Within {
    /// Certainly not after the reading.
    pub(super) const fn earliest(self) -> u64 {
        self.until_us.saturating_sub(MILLI)
    }

    /// Certainly not before the reading.
    pub(super) const fn latest(self) -> u64 {
        self.until_us
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tollgate::algorithm::{Anchor, Renewal};

    use super::{Limit, Limits};

    fn limit(renewal: Renewal, limit: u64, units: u64, period_us: u64) -> Limit {
        Limit { renewal, limit, units, period_us }
    }

    const SECOND: u64 = 1_000_000;

    #[test]
    fn each_algorithm_has_its_bound() {
        let bucket = limit(Renewal::Steady, 10, 1, SECOND);
        assert_eq!(bucket.most(0, 0), 10);
        assert_eq!(bucket.most(7, 7 + 3 * SECOND - 1), 12);
        assert_eq!(bucket.most(7, 7 + 3 * SECOND), 13);
        let fixed = limit(Renewal::Window(Anchor::Epoch), 10, 10, SECOND);
        assert_eq!(fixed.most(SECOND - 1, SECOND - 1), 10);
        assert_eq!(fixed.most(SECOND - 1, SECOND), 20);
        let first = Limit { renewal: Renewal::Window(Anchor::FirstHit), ..fixed };
        assert_eq!(first.most(SECOND - 1, SECOND), 10);
        assert_eq!(first.most(5, 5 + SECOND), 20);
        let log = limit(Renewal::Rolling, 10, 10, SECOND);
        assert_eq!((log.most(5, 4 + SECOND), log.most(5, 5 + SECOND)), (10, 20));
        let sliding = limit(Renewal::Buckets(4), 10, 10, 4 * SECOND);
        assert_eq!(sliding.most(0, 4 * SECOND - 1), 10);
        assert_eq!(sliding.most(0, 4 * SECOND), 20);
        assert_eq!(limit(Renewal::Unstated, 1, 1, 1).most(0, 9), u64::MAX);
        let both = Limits { all: vec![bucket, fixed], shadow: false };
        assert_eq!((both.most(0, SECOND), both.most(0, 30 * SECOND)), (11, 40));
    }

    #[test]
    fn a_renewal_is_read_with_its_numbers_and_an_unknown_one_is_refused() {
        let read = |value: Value| super::renewal(&value);
        assert_eq!(read(json!({"renewal": "steady"})), Some(Renewal::Steady));
        let buckets = json!({"renewal": "buckets", "buckets": 4});
        assert_eq!(read(buckets), Some(Renewal::Buckets(4)));
        let window = json!({"renewal": "window", "anchor": "first_hit"});
        assert_eq!(read(window), Some(Renewal::Window(Anchor::FirstHit)));
        for value in [json!({}), json!({"renewal": "new"}), json!({"renewal": "buckets"})] {
            assert_eq!(read(value.clone()), None, "{value}");
        }
    }
}
