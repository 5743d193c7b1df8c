//! Clauses about changed quotas: what was spent stays spent.

use tollgate_core::store::{CallContext, Store};

use super::suite::{START, Suite, cost};
use super::{MONTH, SECOND, every_quota, skipped};
use crate::check::Ledger;
use crate::model::{Kind, ModelQuota};

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

/// Two quotas in turn on one key, as while a change reaches one server after another, admit no more
/// than the higher one alone: what a lower ceiling cuts off is not forgotten.
pub async fn quotas_in_turn_never_mint<S: Store>(suite: &Suite<'_, S>) {
    for (from, high) in every_quota(10, MONTH).iter().enumerate() {
        for (to, low) in every_quota(3, MONTH).iter().enumerate() {
            let policy = format!("turn-{from}-{to}");
            let (high, low) = (suite.limit(&policy, high), suite.limit(&policy, low));
            let mut admitted = 0;
            for (limit, units) in
                [(&low, 2), (&high, 8), (&low, 1), (&high, 1), (&low, 1), (&high, 1), (&low, 1)]
            {
                let charge = limit.charge("someone").cost(cost(units));
                let decision = suite.charge(charge, suite.at(0)).await.expect("decides");
                admitted += if decision.is_allowed() { units } else { 0 };
            }
            assert_eq!(admitted, 10, "of 10 units, under {high:?} and {low:?} in turn");
        }
    }
}

/// A key that is asked under two quotas in turn, faster than one unit of either comes back, gets
/// what the higher one alone would have given it, and no more.
pub async fn quotas_in_turn_never_lock_out<S: Store>(suite: &Suite<'_, S>) {
    if !suite.injects_time() {
        return skipped("quotas_in_turn_never_lock_out", "time cannot be injected");
    }
    const ASKED: u64 = 60;
    for (number, kind) in (0..).zip(Kind::ALL) {
        let [high, low] = [10, 5].map(|limit| ModelQuota::new(kind, limit, 10 * SECOND, 10));
        let policy = format!("turns-{}", kind.name());
        let (both, start) =
            ([&low, &high].map(|quota| suite.limit(&policy, quota)), START + number * MONTH);
        let all = both[1].charge("someone").cost(cost(high.ceiling()));
        assert!(suite.charge(all, CallContext::at(start)).await.expect("decides").is_allowed());
        let mut ledger = Ledger::default();
        ledger.admit(start, high.ceiling());
        for asked in 1..=ASKED {
            let now = start + asked * 400_000;
            let limit = if asked % 2 == 0 { &both[0] } else { &both[1] };
            let charge = limit.charge("someone");
            let decision = suite.charge(charge, CallContext::at(now)).await.expect("decides");
            if decision.is_allowed() {
                ledger.admit(now, 1);
                let excess = ledger.excess(&high);
                assert!(excess.is_none(), "{excess:?} under {high:?} and {low:?}: {ledger:?}");
            }
        }
        let later = ledger.total() - u128::from(high.ceiling());
        assert!(later >= 10, "{later} units in 24 seconds under {high:?} and {low:?} in turn");
    }
}
