//! Limits as numbers, for programs that check what was admitted.

use tollgate::algorithm::{Anchor, Renewal};
use tollgate::{Limit, Name};

/// A limit of a policy in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its name within the policy.
    pub name: Name,
    /// Its algorithm.
    pub algorithm: String,
    /// The effective ceiling: burst, capacity or window quota.
    pub limit: u64,
    /// Units that it grants per period in the long run, in lowest terms for a schedule.
    pub units: u64,
    /// The period, or the window.
    pub period_us: u64,
    /// How spent units come back: `steady`, `window`, `buckets`, `rolling` or `unstated`.
    pub renewal: &'static str,
    /// Parts of the window, if it is a sliding one.
    pub buckets: Option<u64>,
    /// Where windows begin, if they are fixed.
    pub anchor: Option<&'static str>,
}

impl Described {
    /// A limit under the name that clients know.
    pub(super) fn of(name: &Name, limit: &Limit) -> Self {
        let rule = limit.rule();
        let described = rule.describe();
        let (buckets, anchor) = match described.renewal {
            Renewal::Window(Anchor::Epoch) => (None, Some("epoch")),
            Renewal::Window(Anchor::FirstHit) => (None, Some("first_hit")),
            Renewal::Buckets(buckets) => (Some(buckets), None),
            Renewal::Steady | Renewal::Rolling | Renewal::Unstated => (None, None),
        };
        Self {
            name: name.clone(),
            algorithm: rule.name().to_owned(),
            limit: described.ceiling,
            units: described.units,
            period_us: described.period,
            renewal: described.renewal.as_str(),
            buckets,
            anchor,
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate::algorithm::{Anchor, FixedWindow, Gcra, LeakyBucket, SlidingLog, SlidingWindow};
    use tollgate::{Limit, Quota, Rule};

    use super::Described;

    fn numbers(rule: Rule) -> (u64, u64, u64, Option<u64>, Option<&'static str>) {
        let limit = Limit::with_rule("p", rule).unwrap();
        let Described { limit, units, period_us, buckets, anchor, .. } =
            Described::of(limit.policy(), &limit);
        (limit, units, period_us, buckets, anchor)
    }

    #[test]
    fn every_algorithm_is_told_in_numbers() {
        let (minute, quota) = (60_000_000, Quota::per_minute(6));
        let gcra = Rule::new(Gcra::with_burst(quota, 4).unwrap());
        assert_eq!(numbers(gcra), (4, 1, 10_000_000, None, None));
        let leaky = Rule::new(LeakyBucket::new(quota, 4).unwrap());
        assert_eq!(numbers(leaky), (5, 1, 10_000_000, None, None));
        let fixed = Rule::new(FixedWindow::new(quota, Anchor::FirstHit).unwrap());
        assert_eq!(numbers(fixed), (6, 6, minute, None, Some("first_hit")));
        let sliding = Rule::new(SlidingWindow::with_buckets(quota, 3).unwrap());
        assert_eq!(numbers(sliding), (6, 6, minute, Some(3), None));
        let log = Rule::new(SlidingLog::new(quota).unwrap());
        assert_eq!(numbers(log), (6, 6, minute, None, None));
    }
}
