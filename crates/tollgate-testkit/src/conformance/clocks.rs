//! Clauses about clocks that step back or disagree: never more than one clock would admit.

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Charge, Micros};

use super::suite::{START, Suite, cost};
use super::{SECOND, every_quota, skipped};
use crate::check::Ledger;
use crate::derive::decisions_of;
use crate::rng::Rng;

/// A clock that steps back, by little or by much, never refills a spent key.
pub async fn clocks_stepping_back_never_over_admit<S: Store>(suite: &Suite<'_, S>) {
    if !suite.injects_time() {
        return skipped("clocks_stepping_back_never_over_admit", "time cannot be injected");
    }
    let mut spent_at = START + 500_000;
    for (index, quota) in every_quota(10, SECOND).iter().enumerate() {
        let limit = suite.limit(&format!("back-{index}"), quota);
        let all = limit.charge("someone").cost(cost(10));
        // Later than everything before: a floor that a store keeps is behind it.
        spent_at += 100 * SECOND;
        assert!(suite.charge(all, CallContext::at(spent_at)).await.expect("decides").is_allowed());
        let charge = limit.charge("someone");
        let mut promised = Vec::new();
        for back in [0, 1, 1_000, 50_000, 400_000, 900_000, 5 * SECOND, 50 * SECOND] {
            let reading = spent_at - back;
            let decision = suite.charge(charge, CallContext::at(reading)).await.expect("decides");
            assert!(!decision.is_allowed(), "{back} µs back refilled {quota:?}: {decision:?}");
            let wait = decision.retry_after_ms.expect("a denial says how long to wait");
            promised.push(reading + wait * 1_000);
        }
        // A clock that is behind waits longer, and is told so.
        promised.sort_unstable();
        for then in promised {
            let peek = suite.peek(&charge, CallContext::at(then)).await.expect("peeks").0;
            assert!(peek.is_allowed(), "not allowed after the wait under {quota:?}: {peek:?}");
        }
    }
}

/// A key that expired, and may have been forgotten, is not spent twice by a clock that steps back:
/// neither right after its expiry nor after other keys have moved the store's time on.
pub async fn stepping_back_after_expiry_never_over_admits<S: Store>(suite: &Suite<'_, S>) {
    if !suite.injects_time() {
        return skipped("stepping_back_after_expiry_never_over_admits", "time cannot be injected");
    }
    let mut start = START;
    for (index, quota) in every_quota(10, SECOND).iter().enumerate() {
        let limit = suite.limit(&format!("expired-{index}"), quota);
        start += 100 * SECOND;
        let later = start + 10 * SECOND;
        // Spend, expire, spend again, step back.
        let mut ledger = Ledger::default();
        for at in [start, later, start + 1_000, later] {
            greedy(suite, &limit.charge("twice"), at, &mut ledger).await;
            assert_eq!(ledger.excess(quota), None, "(admitted, at most) under {quota:?}");
        }
        assert_eq!(ledger.total(), 20, "spent other than twice under {quota:?}");
        // Spend, expire while others are served, step back, catch up.
        let mut ledger = Ledger::default();
        greedy(suite, &limit.charge("swept"), start, &mut ledger).await;
        for other in 0..20 {
            let other = format!("other-{other}");
            greedy(suite, &limit.charge(&other), later, &mut Ledger::default()).await;
        }
        for at in [start + 1_000, later] {
            greedy(suite, &limit.charge("swept"), at, &mut ledger).await;
            assert_eq!(ledger.excess(quota), None, "(admitted, at most) under {quota:?}");
        }
    }
}

/// Nodes whose clocks disagree share keys: no more is admitted than by one clock.
pub async fn skewed_clocks_never_over_admit<S: Store>(suite: &Suite<'_, S>) {
    if !suite.injects_time() {
        return skipped("skewed_clocks_never_over_admit", "time cannot be injected");
    }
    let mut rng = Rng::new(0x005C_EEED);
    let mut time: Micros = START;
    for (index, quota) in every_quota(10, SECOND).iter().enumerate() {
        let limit = suite.limit(&format!("skew-{index}"), quota);
        let mut ledger = Ledger::default();
        time += 100 * SECOND;
        for _ in 0..150 {
            time += rng.below(60_000);
            let skew = rng.pick(&[0, 50_000, 100_000, 500_000, 2_000_000], 0);
            let charge = limit.charge("shared").cost(cost(rng.between(1, 3)));
            take(suite, charge, time - skew, &mut ledger).await;
            assert_eq!(ledger.excess(quota), None, "(admitted, at most) under {quota:?}");
        }
        assert!(ledger.total() > 10, "nothing came back under {quota:?}");
    }
}

/// Takes single units until one is not allowed.
async fn greedy<S: Store>(
    suite: &Suite<'_, S>,
    charge: &Charge<'_>,
    at: Micros,
    ledger: &mut Ledger,
) {
    let most = ledger.total() + 1_000;
    while take(suite, *charge, at, ledger).await {
        assert!(ledger.total() < most, "the store never denies");
    }
}

/// Takes a charge and writes it into the ledger at the instant it was decided; whether it passed.
async fn take<S: Store>(
    suite: &Suite<'_, S>,
    charge: Charge<'_>,
    at: Micros,
    ledger: &mut Ledger,
) -> bool {
    let charges = [charge];
    let admission = Admission::of(&charges);
    let outcome = suite.store().admit(&admission, CallContext::at(at)).await.expect("decides");
    let admitted = decisions_of(&admission, &outcome).expect("evidence fits").admitted;
    if admitted {
        ledger.admit(outcome.now.effective(), charge.cost.get());
    }
    admitted
}
