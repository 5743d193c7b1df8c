//! What the tests of decisions do not see: quota ids that cannot be, shares, and standings of
//! algorithms that users write.

mod custom;
mod edges;

use core::time::Duration;

use super::{
    Algorithm, Custom, CustomAlgorithm, CustomStep, FixedWindow, Gcra, Kind, PackedSchedule,
    SlidingLog, SlidingWindow,
};
use crate::cost::Cost;
use crate::decision::Decision;
use crate::quota::Quota;
use crate::rule::Rule;
use crate::state::QuotaId;
use crate::time::{Micros, Now};

const NOW: Micros = 1_800_000_000_000_000;

/// A budget that never comes back: the simplest algorithm there is.
#[derive(Debug)]
struct Budget(u64);

impl Custom for Budget {
    type State = u64;
    const NAME: &'static str = "budget";

    fn parameters(&self) -> [u64; 3] {
        [self.0, 0, 0]
    }

    fn ceiling(&self) -> u64 {
        self.0
    }

    fn horizon(&self) -> Micros {
        1
    }

    fn encode(&self, spent: &u64) -> Vec<u64> {
        vec![*spent]
    }

    fn decode(&self, words: &[u64]) -> Option<u64> {
        words.first().copied()
    }

    fn step(&self, spent: Option<&u64>, _: Now, cost: Cost) -> CustomStep<u64> {
        let spent = spent.copied().unwrap_or_default();
        let left = self.0 - spent;
        if cost.get() > left {
            return CustomStep { decision: Decision::denied(self.0, left, 0, 1), next: None };
        }
        let decision = Decision::allowed(self.0, left - cost.get(), 0);
        CustomStep { decision, next: Some((spent + cost.get(), NOW + 1)) }
    }
}

#[test]
fn the_standing_of_a_users_algorithm_is_uncharged_whatever_its_ceiling() {
    for ceiling in [10, Cost::MAX.get(), 1 << 40] {
        let budget = CustomAlgorithm::new(Budget(ceiling));
        for spent in [0, 3] {
            let forecast = budget.forecast(&[spent], Now::at(NOW));
            assert_eq!(forecast.spendable_now, ceiling - spent);
        }
    }
}

#[test]
fn a_full_key_of_a_users_algorithm_waits_for_no_unit() {
    let budget = CustomAlgorithm::new(Budget(10));
    assert_eq!(budget.forecast(&[], Now::at(NOW)).next_unit_at_ms, None);
    let now_ms = NOW / 1_000;
    assert_eq!(budget.forecast(&[3], Now::at(NOW)).next_unit_at_ms, Some(now_ms + 1));
}

/// States are stored with it: another value would make them unreadable.
#[test]
fn the_tag_of_a_name_stays() {
    let QuotaId([tag, ..]) = CustomAlgorithm::new(Budget(1)).quota_id();
    // FNV-1a of `budget`, shifted.
    assert_eq!(tag, 0x0017_DB4E_3DFF_7CCB);
}

#[test]
fn a_period_that_cannot_be_cut_names_the_nearest_that_can() {
    let quota = Quota::new(10, Duration::from_micros(1_000_005));
    let error = SlidingWindow::with_buckets(quota, 10).unwrap_err();
    assert!(error.message().ends_with("nearest: 1s"), "{error}");
}

#[test]
fn a_packed_schedule_says_when_not_one_unit_is_left() {
    let schedule = PackedSchedule::new(1_000, 1, 5, false).unwrap();
    let full_at = NOW * schedule.scale();
    let above = schedule.throttled_above();
    assert!(schedule.advance(full_at + above, Now::at(NOW), Cost::ONE).is_some());
    assert!(schedule.advance(full_at + above + 1, Now::at(NOW), Cost::ONE).is_none());
}

/// Whether each of the numbers of a quota id is refused, and the first of all accepted.
fn refuses<A>(kind: Kind, read: fn(QuotaId) -> Option<A>, numbers: &[[u64; 3]]) {
    let (good, wrong) = numbers.split_first().unwrap();
    let reads = |[a, b, c]: [u64; 3]| read(QuotaId([kind.tag(), a, b, c])).is_some();
    assert!(reads(*good), "{kind:?} {good:?}");
    for wrong in wrong {
        assert!(!reads(*wrong), "{kind:?} {wrong:?}");
    }
}

#[test]
fn quota_ids_that_no_quota_has_are_refused() {
    let (too_long, too_many) = (1 << 53, (1 << 48) + 1);
    let wrong = [
        [1_000, 1, 5],
        [0, 1, 5],
        [too_long, 1, 1],
        [1_000, 0, 5],
        [1_001, too_many, 5],
        [1_000, 1, 0],
        [1, 1, too_many],
        // Not reduced.
        [1_000, 10, 5],
        // A burst that takes longer than the longest period to come back.
        [1 << 52, 1, 2],
    ];
    refuses(Kind::Gcra, Gcra::from_quota_id, &wrong);
    let wrong = [
        [1_000, 0, 5],
        [1_000, 1, 5],
        [0, 0, 5],
        [too_long, 0, 5],
        [1_000, 0, 0],
        [1, 0, too_many],
    ];
    refuses(Kind::SlidingLog, SlidingLog::from_quota_id, &wrong);
    let wrong = [
        [1_000, 10, 5],
        [1_000, 0, 5],
        [61_000, 61, 5],
        [0, 10, 5],
        [too_long, 1, 5],
        [1_001, 10, 5],
        [1 << 47, 1, 5],
        [1_000, 10, 0],
        [1_000, 10, too_many],
    ];
    refuses(Kind::SlidingWindow, SlidingWindow::from_quota_id, &wrong);
    let wrong =
        [[1_000, 1, 5], [1_000, 2, 5], [0, 1, 5], [too_long, 1, 5], [1, 1, 0], [1, 1, too_many]];
    refuses(Kind::FixedWindow, FixedWindow::from_quota_id, &wrong);
}

/// Whole microseconds and thirds of one, computed by hand.
#[test]
fn a_script_gets_what_a_cost_takes_and_the_room_below_it() {
    let gcra = Gcra::new(Quota::new(3, Duration::from_micros(10))).unwrap();
    let numbers = |cost| {
        let mut numbers = Vec::new();
        gcra.script_cost(Cost::new(cost).unwrap(), &mut numbers);
        numbers
    };
    assert_eq!(numbers(1), [3, 1, 6, 2]);
    assert_eq!(numbers(2), [6, 2, 3, 1]);
    assert_eq!(numbers(3), [10, 0, 0, 0]);
    assert_eq!(numbers(4), [0, 0, -1, 0]);
}

#[test]
fn a_share_of_a_schedule_is_the_schedule_of_the_share() {
    let gcra = |limit| Gcra::new(Quota::per_second(limit)).unwrap();
    for (limit, numerator, denominator, share) in [(10, 1, 2, 5), (10, 3, 5, 6), (7, 1, 7, 1)] {
        let scaled: Rule = gcra(limit).scaled(numerator, denominator).unwrap();
        assert_eq!(scaled.quota_id(), gcra(share).quota_id(), "{numerator}/{denominator}");
    }
}

/// Shares whose exact rate no quota has: rounded down, and never to less than half, unless the
/// slowest rate there is would be more.
#[test]
fn a_share_beyond_the_range_is_rounded_down() {
    const PERIOD_MAX: u64 = 1 << 52;
    let month = Duration::from_secs(30 * 86_400);
    let quotas = [
        Quota::new((1 << 48) - 1, month),
        Quota::new(1, Duration::from_micros(PERIOD_MAX)),
        Quota::new(999_983, month),
    ];
    for (quota, numerator, denominator) in
        quotas.into_iter().flat_map(|quota| [(quota, 1, 1_000_003), (quota, 999_979, 1_000_003)])
    {
        let whole = Gcra::new(quota).unwrap();
        let QuotaId([tag, p, l, burst]) = whole.quota_id();
        let scaled = whole.scaled(numerator, denominator).unwrap().quota_id();
        assert!(Gcra::from_quota_id(scaled).is_some(), "{scaled:?} is no quota");
        let QuotaId([scaled_tag, scaled_p, scaled_l, scaled_burst]) = scaled;
        let wide = |a: u64, b: u64, c: u64| u128::from(a) * u128::from(b) * u128::from(c);
        // The rates over a common denominator.
        let exact = wide(l, numerator, scaled_p);
        let rounded = wide(scaled_l, p, denominator);
        let is_slowest = scaled_l == 1 && scaled_p == PERIOD_MAX;
        assert!(rounded <= exact || is_slowest, "{quota:?} {scaled:?}");
        assert!(2 * rounded >= exact, "{quota:?} {scaled:?}");
        let longest = wide(scaled_l, PERIOD_MAX, 1) / u128::from(scaled_p);
        let share = (wide(burst, numerator, 1) / u128::from(denominator)).min(longest).max(1);
        assert_eq!((scaled_tag, u128::from(scaled_burst)), (tag, share), "{quota:?}");
    }
}
