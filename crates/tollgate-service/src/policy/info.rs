//! Limits in numbers, for clients and for programs that verify what was admitted.

use tollgate_core::Name;
use tollgate_core::algorithm::{Anchor, Renewal};

use super::NamedLimit;

/// A limit of a policy in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitInfo {
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
    /// Parts of the window, for a sliding window.
    pub buckets: Option<u64>,
    /// Where windows begin, for a fixed window.
    pub anchor: Option<&'static str>,
    /// How many units a settlement charges beyond the ceiling at most.
    pub max_debt: u64,
    /// What happens when the store cannot answer.
    pub on_outage: &'static str,
}

impl LimitInfo {
    /// The numbers of a limit, under its name within the policy.
    pub(super) fn of(NamedLimit { name, limit }: &NamedLimit) -> Self {
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
            max_debt: limit.debt_bound(),
            on_outage: limit.outage_mode().as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::algorithm::{
        Anchor, FixedWindow, Gcra, LeakyBucket, SlidingLog, SlidingWindow,
    };
    use tollgate_core::{Limit, Quota, Rule};

    use super::{LimitInfo, NamedLimit};

    fn numbers(rule: Rule) -> (u64, u64, u64, Option<u64>, Option<&'static str>) {
        let limit = Limit::with_rule("p", rule).unwrap();
        let named = NamedLimit { name: limit.policy().clone(), limit };
        let LimitInfo { limit, units, period_us, buckets, anchor, .. } = LimitInfo::of(&named);
        (limit, units, period_us, buckets, anchor)
    }

    #[test]
    fn every_algorithm_is_described_in_numbers() {
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
