//! Clauses about keys: states persist, never meet, are cleared and expire.

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Charge, Limit};

use super::suite::{START, Suite, cost};
use super::{MONTH, SECOND, every_quota, skipped};
use crate::model::ModelQuota;

/// What was charged is there for the next request.
pub async fn persists<S: Store>(suite: &Suite<'_, S>) {
    for (index, quota) in every_quota(10, MONTH).iter().enumerate() {
        let limit = suite.limit(&format!("persists-{index}"), quota);
        let charge = limit.charge("someone").cost(cost(3));
        for left in [7, 4, 1] {
            let decision = suite.charge(charge, suite.at(0)).await.expect("a charge is decided");
            assert!(decision.is_allowed(), "{decision:?} under {quota:?}");
            assert_eq!(decision.remaining, left, "under {quota:?}");
            let remaining = suite.remaining(&limit, "someone", suite.at(0)).await;
            assert_eq!(remaining, left, "a peek sees another state under {quota:?}");
        }
        let denied = suite.charge(charge, suite.at(0)).await.expect("a charge is decided");
        assert!(!denied.is_allowed(), "{denied:?} under {quota:?}");
    }
}

/// No two keys meet, however adversarial their names.
pub async fn isolates_keys<S: Store>(suite: &Suite<'_, S>) {
    let long = "x".repeat(512);
    let almost = format!("{}y", "x".repeat(511));
    let subjects = [
        "", "%", "%25", "%2525", ":", "%3A", "{", "}", "{}", "}{", "a", "A", "a:b", "a}:{b",
        "a%3Ab", "b:{a}", "é", "e\u{301}", "💶", " ", "  ", "\n", "\t", "'", "\"", "\\", "*", "?",
        "[a]", "null", "0", "-1", &long, &almost,
    ];
    let quota = ModelQuota::Gcra { limit: 1_000, period_us: MONTH, burst: 1_000 };
    let limits: Vec<Limit> = ["a", "A", "a.b", "a-b", "a_b", "0"]
        .iter()
        .map(|policy| suite.limit(policy, &quota))
        .collect();
    let mut charges: Vec<Charge<'_>> = Vec::new();
    for limit in &limits {
        charges.extend(subjects.iter().map(|subject| limit.charge(subject)));
    }
    // Every key is charged another number of units, so that any two that met would show it.
    for (units, charge) in (1..).zip(&charges) {
        let decision = suite.charge(charge.cost(cost(units)), suite.at(0)).await;
        let decision = decision.expect("a key of any text is decided");
        assert_eq!(decision.remaining, 1_000 - units, "{:?} met another key", charge.key());
    }
    for (units, charge) in (1..).zip(&charges) {
        let remaining = suite.remaining(charge.limit, charge.subject, suite.at(0)).await;
        assert_eq!(remaining, 1_000 - units, "{:?} met another key", charge.key());
    }
}

/// A reset key is fresh, and no other key is touched.
pub async fn reset_clears<S: Store>(suite: &Suite<'_, S>) {
    for (index, quota) in every_quota(10, MONTH).iter().enumerate() {
        let limit = suite.limit(&format!("reset-{index}"), quota);
        for subject in ["cleared", "kept"] {
            let charge = limit.charge(subject).cost(cost(10));
            assert!(suite.charge(charge, suite.at(0)).await.expect("decides").is_allowed());
        }
        suite.store().reset(limit.key("cleared"), suite.at(0)).await.expect("a key can be reset");
        suite
            .store()
            .reset(limit.key("never seen"), suite.at(0))
            .await
            .expect("a fresh key can be reset");
        assert_eq!(suite.remaining(&limit, "cleared", suite.at(0)).await, 10, "under {quota:?}");
        assert_eq!(suite.remaining(&limit, "kept", suite.at(0)).await, 0, "under {quota:?}");
        let again = suite.charge(limit.charge("cleared").cost(cost(10)), suite.at(0)).await;
        assert!(again.expect("decides").is_allowed(), "not fresh after reset under {quota:?}");
    }
}

/// A state means the same as none from the instant its decisions named, and not earlier.
pub async fn expires<S: Store>(suite: &Suite<'_, S>) {
    if !suite.injects_time() {
        return skipped("expires", "time cannot be injected");
    }
    for (index, quota) in every_quota(5, SECOND).iter().enumerate() {
        let limit = suite.limit(&format!("expires-{index}"), quota);
        let all = limit.charge("someone").cost(cost(5));
        let mut at = START;
        for round in 0..3 {
            let decision = suite.charge(all, CallContext::at(at)).await.expect("decides");
            assert!(decision.is_allowed(), "not fresh in round {round} under {quota:?}");
            let fresh_at = decision.reset_at_ms * 1_000;
            let early = suite.peek(&all, CallContext::at(fresh_at - 1_000)).await.expect("peeks").0;
            assert!(!early.is_allowed(), "fresh too early under {quota:?}: {early:?}");
            at = fresh_at;
        }
    }
}
