//! Clauses about atomicity: under any concurrency, every charge counts once and none is lost.

use std::thread;

use tollgate_core::store::{MultiKey, Store};
use tollgate_core::{Admission, BoxFuture, Limit};

use super::suite::{Suite, cost};
use super::{MONTH, every_quota, skipped};
use crate::runtime::join_all;

/// 200 concurrent charges read back as exactly 200, each seen by one decision.
pub async fn concurrent_applies_read_back_exactly<S: Store>(suite: &Suite<'_, S>) {
    if !suite.capability().exact {
        return skipped("concurrent_applies_read_back_exactly", "the store is not exact");
    }
    for (index, quota) in every_quota(1_000, MONTH).iter().enumerate() {
        let limit = suite.limit(&format!("applies-{index}"), quota);
        let charges = (0..200).map(|_| suite.charge(limit.charge("hot"), suite.at(0)));
        let mut left: Vec<u64> = Vec::new();
        for decision in join_all(charges).await {
            left.push(decision.expect("a charge is decided").remaining);
        }
        let remaining = suite.remaining(&limit, "hot", suite.at(0)).await;
        assert_eq!(remaining, 800, "updates were lost under {quota:?}");
        left.sort_unstable();
        let each_once: Vec<u64> = (800..1_000).collect();
        assert_eq!(left, each_once, "two charges saw the same state under {quota:?}");
    }
}

/// With a limit of 50, exactly 50 of 200 concurrent checks pass.
pub async fn concurrent_checks_admit_exactly<S: Store>(suite: &Suite<'_, S>) {
    if !suite.capability().exact {
        return skipped("concurrent_checks_admit_exactly", "the store is not exact");
    }
    for (index, quota) in every_quota(50, MONTH).iter().enumerate() {
        let limit = suite.limit(&format!("checks-{index}"), quota);
        let checks = (0..200).map(|_| suite.charge(limit.charge("hot"), suite.at(0)));
        let decisions = join_all(checks).await;
        let passed = decisions
            .into_iter()
            .filter(|decision| decision.as_ref().expect("a check is decided").is_allowed())
            .count();
        assert_eq!(passed, 50, "of 200 concurrent checks under {quota:?}");
        assert_eq!(suite.remaining(&limit, "hot", suite.at(0)).await, 0, "under {quota:?}");
    }
}

/// The same with real threads: 8 of them, 25 checks each. `run` runs a future on its thread.
pub fn threads_admit_exactly<S: Store + Sync>(
    suite: &Suite<'_, S>,
    run: &(dyn Fn(BoxFuture<'_, ()>) + Sync),
) {
    if !suite.capability().exact {
        return skipped("threads_admit_exactly", "the store is not exact");
    }
    for (index, quota) in every_quota(50, MONTH).iter().enumerate() {
        let limit = suite.limit(&format!("threads-{index}"), quota);
        let passed = core::sync::atomic::AtomicU64::new(0);
        let work = || async {
            for _ in 0..25 {
                let decision = suite.charge(limit.charge("hot"), suite.at(0)).await;
                let allowed = decision.expect("a check is decided").is_allowed();
                passed.fetch_add(u64::from(allowed), core::sync::atomic::Ordering::Relaxed);
            }
        };
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| run(Box::pin(work())));
            }
        });
        assert_eq!(passed.into_inner(), 50, "of 200 checks on 8 threads under {quota:?}");
    }
}

/// Either every limit is charged or none is, and a denied combination reports uncharged numbers.
pub async fn all_or_nothing<S: Store>(suite: &Suite<'_, S>) {
    if suite.capability().multi_key == MultiKey::Unsupported {
        return skipped("all_or_nothing", "the store admits over one key only");
    }
    let (wide, narrow) = (every_quota(10, MONTH), every_quota(3, MONTH));
    for (index, quota) in wide.iter().enumerate() {
        let other = narrow.iter().cycle().nth(index + 3).expect("a cycle never ends");
        let limits = [
            suite.limit(&format!("wide-{index}"), quota),
            suite.limit(&format!("narrow-{index}"), other),
        ];
        let [wide, narrow] = &limits;
        let both = [wide.charge("someone").cost(cost(2)), narrow.charge("someone").cost(cost(2))];
        let (first, second) = (Admission::of(&both), [both[1], both[0]]);
        let plan = suite.admit(&first, suite.at(0)).await.expect("decides");
        assert!(plan.admitted, "{plan:?} under {quota:?} and {other:?}");
        // One unit is left in the narrow limit: denied in either order, charging neither.
        for admission in [first, Admission::of(&second)] {
            let plan = suite.admit(&admission, suite.at(0)).await.expect("decides");
            assert!(!plan.admitted, "{plan:?} under {quota:?} and {other:?}");
            for (charge, decision) in admission.charges().iter().zip(&plan.decisions) {
                let left = if charge.cost.get() == 2 && decision.limit == 10 { 8 } else { 1 };
                assert_eq!(decision.remaining, left, "charged numbers in a denial: {decision:?}");
            }
            let left = remaining(suite, &limits, "someone").await;
            assert_eq!(left, [8, 1], "a denied combination charged: {quota:?} and {other:?}");
        }
    }
}

/// Concurrent combinations in opposite orders neither deadlock nor charge what they deny.
pub async fn all_or_nothing_under_contention<S: Store>(suite: &Suite<'_, S>) {
    let multi_key = suite.capability().multi_key;
    if multi_key == MultiKey::Unsupported || !suite.capability().exact {
        return skipped("all_or_nothing_under_contention", "the store is not exact over keys");
    }
    let (wide, narrow) = (every_quota(30, MONTH), every_quota(20, MONTH));
    for (index, (wide, narrow)) in wide.iter().zip(narrow.iter().rev()).enumerate() {
        let limits = [
            suite.limit(&format!("contended-wide-{index}"), wide),
            suite.limit(&format!("contended-narrow-{index}"), narrow),
        ];
        let [a, b] = &limits;
        let forth = [a.charge("hot"), b.charge("hot")];
        let back = [b.charge("hot"), a.charge("hot")];
        let admissions = [Admission::of(&forth), Admission::of(&back)];
        let all = admissions.iter().cycle().take(100);
        let plans = join_all(all.map(|admission| suite.admit(admission, suite.at(0)))).await;
        let admitted: u64 = plans
            .into_iter()
            .map(|plan| u64::from(plan.expect("a combination is decided").admitted))
            .sum();
        if multi_key == MultiKey::Atomic {
            assert_eq!(admitted, 20, "under {wide:?} and {narrow:?}");
        }
        assert!(admitted <= 20, "{admitted} admitted under {wide:?} and {narrow:?}");
        let left = remaining(suite, &limits, "hot").await;
        let expected = [30 - admitted, 20 - admitted];
        assert_eq!(left, expected, "a denied combination charged: {wide:?} and {narrow:?}");
    }
}

/// Two charges on one key see each other, and are denied together.
pub async fn two_charges_on_one_key_apply_in_order<S: Store>(suite: &Suite<'_, S>) {
    if suite.capability().multi_key == MultiKey::Unsupported {
        return skipped("two_charges_on_one_key_apply_in_order", "one charge per admission only");
    }
    for (index, quota) in every_quota(10, MONTH).iter().enumerate() {
        let limits = [suite.limit(&format!("twice-{index}"), quota)];
        let [limit] = &limits;
        let pair = |a, b| [limit.charge("k").cost(cost(a)), limit.charge("k").cost(cost(b))];
        let plan = suite.admit(&Admission::of(&pair(3, 4)), suite.at(0)).await.expect("decides");
        let left: Vec<u64> = plan.decisions.iter().map(|decision| decision.remaining).collect();
        assert_eq!((plan.admitted, left), (true, vec![7, 3]), "under {quota:?}");
        let plan = suite.admit(&Admission::of(&pair(2, 2)), suite.at(0)).await.expect("decides");
        assert!(!plan.admitted, "both fit alone but not together: {quota:?}");
        assert_eq!(remaining(suite, &limits, "k").await, [3], "a denied pair charged: {quota:?}");
        let plan = suite.admit(&Admission::of(&pair(1, 2)), suite.at(0)).await.expect("decides");
        assert!(plan.admitted, "under {quota:?}");
        assert_eq!(remaining(suite, &limits, "k").await, [0], "under {quota:?}");
    }
}

async fn remaining<S: Store>(suite: &Suite<'_, S>, limits: &[Limit], subject: &str) -> Vec<u64> {
    let mut left = Vec::with_capacity(limits.len());
    for limit in limits {
        left.push(suite.remaining(limit, subject, suite.at(0)).await);
    }
    left
}
