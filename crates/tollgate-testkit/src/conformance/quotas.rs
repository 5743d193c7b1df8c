//! Clauses about changed quotas: what was spent stays spent.

use tollgate_core::store::{CallContext, Store};

use super::suite::{START, Suite, cost};
use super::{MONTH, SECOND, every_quota, skipped};

/// Under another quota or algorithm the units still owed are owed: no free refill.
pub async fn changed_quotas_keep_what_was_spent<S: Store>(suite: &Suite<'_, S>) {
    for (from, old) in every_quota(10, MONTH).iter().enumerate() {
        for (to, new) in every_quota(8, MONTH).iter().enumerate() {
            let policy = format!("change-{from}-{to}");
            let (before, after) = (suite.limit(&policy, old), suite.limit(&policy, new));
            let spend = before.charge("someone").cost(cost(6));
            assert!(suite.charge(spend, suite.at(0)).await.expect("decides").is_allowed());
            let left = suite.remaining(&after, "someone", suite.at(0)).await;
            assert_eq!(left, 2, "a peek after the change from {old:?} to {new:?}");
            for (units, allowed) in [(3, false), (2, true), (1, false)] {
                let charge = after.charge("someone").cost(cost(units));
                let decision = suite.charge(charge, suite.at(0)).await.expect("decides");
                let context = format!("{units} after the change from {old:?} to {new:?}");
                assert_eq!(decision.is_allowed(), allowed, "{context}: {decision:?}");
            }
        }
    }
}

/// The change is carried over, and kept, at the first contact, even a denied one: so the wait that
/// a denial names counts from there, and is tight.
pub async fn changed_quotas_are_carried_at_first_contact<S: Store>(suite: &Suite<'_, S>) {
    if !suite.injects_time() {
        return skipped("changed_quotas_are_carried_at_first_contact", "time cannot be injected");
    }
    // Every pair starts after the last one has expired: a floor that a store keeps is behind it.
    let mut start = START;
    for (from, old) in every_quota(10, 3_600 * SECOND).iter().enumerate() {
        for (to, new) in every_quota(4, SECOND).iter().enumerate() {
            start += 10 * 3_600 * SECOND;
            let policy = format!("contact-{from}-{to}");
            let (before, after) = (suite.limit(&policy, old), suite.limit(&policy, new));
            let all = before.charge("someone").cost(cost(10));
            assert!(suite.charge(all, CallContext::at(start)).await.expect("decides").is_allowed());
            let charge = after.charge("someone").cost(cost(2));
            let contact = start + 7_000;
            let denied = suite.charge(charge, CallContext::at(contact)).await.expect("decides");
            let context = format!("the change from {old:?} to {new:?}");
            assert_eq!(denied.remaining, 0, "a free refill after {context}");
            let wait = denied.retry_after_ms.expect("a denial says how long to wait");
            assert!(wait <= 2_001, "{wait} ms is longer than the new quota needs: {context}");
            let early = CallContext::at(contact + (wait - 1) * 1_000);
            let decision = suite.charge(charge, early).await.expect("decides");
            assert!(!decision.is_allowed(), "allowed too early after {context}");
            let then = CallContext::at(contact + wait * 1_000);
            let decision = suite.charge(charge, then).await.expect("decides");
            assert!(decision.is_allowed(), "the wait started over after {context}: {decision:?}");
        }
    }
}
