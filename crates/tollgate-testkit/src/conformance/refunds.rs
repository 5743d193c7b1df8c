//! Clauses about refunds: the part of a charge that has not decayed comes back, and no more.

use tollgate_core::algorithm::Renewal;
use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Charge, Decision, Micros, Receipt};

use super::suite::{START, Suite, cost};
use super::{SECOND, every_quota, skipped};
use crate::model::ModelQuota;

/// Long enough that a unit of the quotas below takes a day.
const DAYS: Micros = 86_400 * SECOND;

/// A charge that is refunded a moment later leaves the key as it was, although a part of a unit has
/// decayed meanwhile; and the charges of others stay.
pub async fn refunds_give_back_what_is_left<S: Store>(suite: &Suite<'_, S>) {
    if !suite.injects_time() {
        return skipped("refunds_give_back_what_is_left", "time cannot be injected");
    }
    // Every quota starts after the last one has expired: a floor that a store keeps is behind it.
    let mut start = START;
    for (number, quota) in every_quota(10, 10 * DAYS).iter().enumerate() {
        start += 100 * DAYS;
        if suite.limit("renewal", quota).rule().describe().renewal != Renewal::Steady {
            continue;
        }
        let key = Key { suite, policy: format!("refund-{number}"), quota, start };
        // A microsecond of ten units has decayed: all of the rest comes back.
        let taken = key.check("alone", 10, 0).await;
        assert_eq!(key.refund("alone", (10, receipt(&taken)), 1).await, 10, "{quota:?}");
        let again = key.check("alone", 10, 1).await;
        assert!(again.is_allowed(), "a unit was lost under {quota:?}: {again:?}");
        // Half of the first unit has decayed, and another charge came after it.
        let taken = key.check("shared", 1, 1).await;
        assert!(key.check("shared", 9, 1).await.is_allowed());
        let half = DAYS / 2;
        assert_eq!(key.refund("shared", (1, receipt(&taken)), half).await, 1, "{quota:?}");
        let more = key.check("shared", 2, half).await;
        assert!(!more.is_allowed(), "units of others came back under {quota:?}: {more:?}");
        assert!(key.check("shared", 1, half).await.is_allowed(), "nothing came back");
        // What has decayed does not come back a second time.
        let taken = key.check("late", 1, half).await;
        assert!(key.check("late", 9, half).await.is_allowed());
        assert_eq!(key.refund("late", (1, receipt(&taken)), half + DAYS).await, 0, "{quota:?}");
    }
}

fn receipt(taken: &Decision) -> Receipt {
    taken.receipt().expect("an allowed charge has a receipt")
}

/// The keys of one policy.
struct Key<'a, S> {
    suite: &'a Suite<'a, S>,
    policy: String,
    quota: &'a ModelQuota,
    start: Micros,
}

impl<S: Store> Key<'_, S> {
    async fn check(&self, subject: &str, units: u64, after: Micros) -> Decision {
        let limit = self.suite.limit(&self.policy, self.quota);
        let charge = limit.charge(subject).cost(cost(units));
        self.suite.charge(charge, CallContext::at(self.start + after)).await.expect("decides")
    }

    /// Units given back.
    async fn refund(&self, subject: &str, of: (u64, Receipt), after: Micros) -> u64 {
        let limit = self.suite.limit(&self.policy, self.quota);
        let charge: Charge<'_> = limit.charge(subject).cost(cost(of.0)).refund(of.1);
        let at = CallContext::at(self.start + after);
        let plan = self.suite.admit(&Admission::from(charge), at).await.expect("gives back");
        plan.settled.iter().map(|one| one.given_back).sum()
    }
}
