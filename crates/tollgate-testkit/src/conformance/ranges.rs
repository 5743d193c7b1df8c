//! Clauses about ranges: as much as there is, between two numbers, and never more.

use tollgate_core::store::{MultiKey, Store};
use tollgate_core::{Admission, Charge, Code, Cost, Limit, RequestId};

use super::suite::{Suite, cost};
use super::{MONTH, every_quota, skipped};
use crate::runtime::join_all;

fn range<'a>(limit: &'a Limit, subject: &'a str, (min, max): (u64, u64)) -> Charge<'a> {
    limit.charge(subject).cost(cost(min)).up_to(cost(max))
}

/// A range is granted what is left, at most its end; below its start it is denied, and charges
/// nothing.
pub async fn ranges_take_what_is_there<S: Store>(suite: &Suite<'_, S>) {
    for (index, quota) in every_quota(10, MONTH).iter().enumerate() {
        let limit = suite.limit(&format!("range-{index}"), quota);
        for (asked, granted, left) in [
            ((11, 20), None, 10),
            ((1, 4), Some(4), 6),
            ((7, 9), None, 6),
            ((2, 100), Some(6), 0),
            ((1, 1), None, 0),
        ] {
            let charge = range(&limit, "someone", asked);
            let decision = suite.charge(charge, suite.at(0)).await.expect("decides");
            let context = format!("{asked:?} under {quota:?}: {decision:?}");
            assert_eq!(decision.granted().map(Cost::get), granted, "{context}");
            assert_eq!(decision.is_allowed(), granted.is_some(), "{context}");
            assert_eq!(decision.remaining, left, "{context}");
            let kept = suite.remaining(&limit, "someone", suite.at(0)).await;
            assert_eq!(kept, left, "what is kept differs from the decision: {context}");
        }
    }
}

/// Two keys are granted the same: what the scarcer one has left.
pub async fn ranges_over_keys_are_granted_the_same<S: Store>(suite: &Suite<'_, S>) {
    if suite.capability().multi_key == MultiKey::Unsupported {
        return skipped("ranges_over_keys_are_granted_the_same", "one key per admission only");
    }
    let (wide, narrow) = (every_quota(10, MONTH), every_quota(7, MONTH));
    for (index, (wide, narrow)) in wide.iter().zip(narrow.iter().rev()).enumerate() {
        let limits = [
            suite.limit(&format!("range-wide-{index}"), wide),
            suite.limit(&format!("range-narrow-{index}"), narrow),
        ];
        let [a, b] = &limits;
        let (forth, back) = ([a, b], [b, a]);
        for (order, asked, granted, left) in [
            (forth, (1, 4), Some(4), [6, 3]),
            (back, (1, 100), Some(3), [3, 0]),
            (forth, (1, 100), None, [3, 0]),
        ] {
            let charges = order.map(|limit| range(limit, "someone", asked));
            let admitted = suite.admit(&Admission::of(&charges), suite.at(0)).await;
            for decision in admitted.expect("decides").decisions {
                let units = decision.granted().map(Cost::get);
                assert_eq!(units, granted, "{asked:?} under {wide:?} and {narrow:?}");
            }
            let mut kept = Vec::with_capacity(limits.len());
            for limit in &limits {
                kept.push(suite.remaining(limit, "someone", suite.at(0)).await);
            }
            assert_eq!(kept, left, "{asked:?} under {wide:?} and {narrow:?}");
        }
    }
}

/// 200 concurrent ranges hand out exactly what there is.
pub async fn concurrent_ranges_hand_out_exactly<S: Store>(suite: &Suite<'_, S>) {
    if !suite.capability().exact {
        return skipped("concurrent_ranges_hand_out_exactly", "the store is not exact");
    }
    for (index, quota) in every_quota(500, MONTH).iter().enumerate() {
        let limit = suite.limit(&format!("ranges-{index}"), quota);
        let asked = |number: u64| (1, 1 + number % 7);
        let charges =
            (0..200).map(|number| suite.charge(range(&limit, "hot", asked(number)), suite.at(0)));
        let mut handed_out = 0;
        for (decision, number) in join_all(charges).await.into_iter().zip(0..) {
            let decision = decision.expect("a range is decided");
            let (_, max) = asked(number);
            let granted = decision.granted().map_or(0, Cost::get);
            assert!(granted <= max && decision.is_allowed() == (granted > 0), "{decision:?}");
            handed_out += granted;
        }
        assert_eq!(handed_out, 500, "of 500 units under {quota:?}");
        assert_eq!(suite.remaining(&limit, "hot", suite.at(0)).await, 0, "under {quota:?}");
    }
}

/// A request id replays what a range was granted; another range, or its cost alone, is a conflict.
pub async fn request_ids_replay_ranges<S: Store>(suite: &Suite<'_, S>) {
    if !suite.capability().idempotent {
        return skipped("request_ids_replay_ranges", "the store keeps no request ids");
    }
    let once = RequestId::new("id").expect("an accepted id");
    for (index, quota) in every_quota(10, MONTH).iter().enumerate() {
        let limit = suite.limit(&format!("range-id-{index}"), quota);
        let all = suite.charge(limit.charge("someone").cost(cost(4)), suite.at(0)).await;
        assert!(all.expect("decides").is_allowed());
        let plain = limit.charge("someone").cost(cost(2));
        let charge = plain.up_to(cost(8));
        let (first, _) = suite.charge_once(charge, once, suite.at(0)).await.expect("decides");
        assert_eq!(first.granted(), Some(cost(6)), "{first:?} under {quota:?}");
        let (again, evidence) =
            suite.charge_once(charge, once, suite.at(0)).await.expect("answers");
        assert!(evidence.replayed.is_some(), "a replay was decided anew under {quota:?}");
        assert_eq!(again, first, "a replay answers otherwise under {quota:?}");
        for other in [range(&limit, "someone", (2, 9)), charge.cost(cost(1)), plain] {
            let answer = suite.charge_once(other, once, suite.at(0)).await;
            let code = answer.map_err(|error| error.code()).err();
            assert_eq!(code, Some(Code::IdempotencyConflict), "{other:?} under {quota:?}");
        }
        let left = suite.remaining(&limit, "someone", suite.at(0)).await;
        assert_eq!(left, 0, "a replay or a conflict charged under {quota:?}");
    }
}
