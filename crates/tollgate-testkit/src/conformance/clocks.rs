//! Clauses about clocks that step back or disagree: never more than one clock would admit.

use tollgate_core::store::{At, Store};
use tollgate_core::{Admission, Micros};

use super::suite::{START, Suite, cost};
use super::{SECOND, every_quota, skipped};
use crate::check::Ledger;
use crate::derive::decisions_of;
use crate::rng::Rng;

/// A clock that steps back, by little or by much, never refills a spent key.
pub async fn clocks_stepping_back_never_over_admit<S: Store>(suite: &Suite<'_, S>) {
    if !suite.injects_time() {
        return skipped(
            "clocks_stepping_back_never_over_admit",
            "time cannot be injected",
        );
    }
    for (index, quota) in every_quota(10, SECOND).iter().enumerate() {
        let limit = suite.limit(&format!("back-{index}"), quota);
        let all = limit.charge("someone").cost(cost(10));
        let spent_at = START + 500_000;
        assert!(
            suite
                .charge(all, At::Given(spent_at))
                .await
                .expect("decides")
                .is_allowed()
        );
        for back in [
            0,
            1,
            1_000,
            50_000,
            400_000,
            900_000,
            5 * SECOND,
            50 * SECOND,
        ] {
            let charge = limit.charge("someone");
            let decision = suite
                .charge(charge, At::Given(spent_at - back))
                .await
                .expect("decides");
            assert!(
                !decision.is_allowed(),
                "{back} µs back refilled {quota:?}: {decision:?}"
            );
            // A clock that is behind waits longer, and is told so.
            let wait = decision
                .retry_after_ms
                .expect("a denial says how long to wait");
            let then = At::Given(spent_at - back + wait * 1_000);
            let peek = suite.peek(&charge, then).await.expect("peeks").0;
            assert!(
                peek.is_allowed(),
                "not allowed after the wait under {quota:?}: {peek:?}"
            );
        }
    }
}

/// A key that expired, and may have been forgotten, is not spent twice by a clock that steps back:
/// neither right after its expiry nor after other keys have moved the store's time on.
pub async fn stepping_back_after_expiry_never_over_admits<S: Store>(suite: &Suite<'_, S>) {
    if !suite.injects_time() {
        return skipped(
            "stepping_back_after_expiry_never_over_admits",
            "time cannot be injected",
        );
    }
    for (index, quota) in every_quota(10, SECOND).iter().enumerate() {
        let limit = suite.limit(&format!("expired-{index}"), quota);
        let mut admitted = 0;
        let later = START + 10 * SECOND;
        // Spend, expire, spend again, step back.
        admitted += greedy(suite, &limit, "twice", START).await;
        admitted += greedy(suite, &limit, "twice", later).await;
        admitted += greedy(suite, &limit, "twice", START + 1_000).await;
        admitted += greedy(suite, &limit, "twice", later).await;
        assert_eq!(admitted, 20, "spent more than twice under {quota:?}");
        // Spend, expire while others are served, step back, catch up: one more time in all.
        let mut admitted = greedy(suite, &limit, "swept", START).await;
        for other in 0..20 {
            greedy(suite, &limit, &format!("other-{other}"), later).await;
        }
        admitted += greedy(suite, &limit, "swept", START + 1_000).await;
        admitted += greedy(suite, &limit, "swept", later).await;
        assert!(admitted <= 20, "forgot {admitted} units under {quota:?}");
    }
}

/// Nodes whose clocks disagree share keys: no more is admitted than by one clock.
pub async fn skewed_clocks_never_over_admit<S: Store>(suite: &Suite<'_, S>) {
    if !suite.injects_time() {
        return skipped("skewed_clocks_never_over_admit", "time cannot be injected");
    }
    let mut rng = Rng::new(0x005C_EEED);
    for (index, quota) in every_quota(10, SECOND).iter().enumerate() {
        let limit = suite.limit(&format!("skew-{index}"), quota);
        let mut ledger = Ledger::default();
        let mut time: Micros = START;
        for _ in 0..150 {
            time += rng.below(60_000);
            let skew = rng.pick(&[0, 50_000, 100_000, 500_000, 2_000_000], 0);
            let charges = [limit.charge("shared").cost(cost(rng.between(1, 3)))];
            let admission = Admission::of(&charges);
            let outcome = suite
                .store()
                .admit(&admission, At::Given(time - skew))
                .await;
            let outcome = outcome.expect("decides");
            let plan = decisions_of(&admission, &outcome).expect("evidence fits");
            if plan.admitted {
                ledger.admit(outcome.now.effective(), charges[0].cost.get());
                let excess = ledger.excess(quota);
                assert!(
                    excess.is_none(),
                    "(admitted, at most) = {excess:?} under {quota:?}"
                );
            }
        }
    }
}

/// Takes single units until one is not allowed; how many were.
async fn greedy<S: Store>(
    suite: &Suite<'_, S>,
    limit: &tollgate_core::Limit,
    subject: &str,
    at: Micros,
) -> u64 {
    let mut admitted = 0;
    while admitted < 1_000 {
        let decision = suite.charge(limit.charge(subject), At::Given(at)).await;
        if !decision.expect("decides").is_allowed() {
            break;
        }
        admitted += 1;
    }
    admitted
}
