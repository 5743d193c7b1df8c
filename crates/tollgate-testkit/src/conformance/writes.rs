//! Clauses about what is not written: a peek and a denial leave no trace.

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Charge, State};

use super::suite::{Suite, cost};
use super::{MONTH, every_quota};

/// Loading changes nothing: neither a fresh key nor one with a state.
pub async fn peek_never_writes<S: Store>(suite: &Suite<'_, S>) {
    for (index, quota) in every_quota(10, MONTH).iter().enumerate() {
        let limit = suite.limit(&format!("peek-{index}"), quota);
        let charge = limit.charge("someone").cost(cost(4));
        let at = suite.at(0);
        // Also at a later time: a peek that left a state would leave one from the future.
        for at in [at, suite.at(5_000_000), at] {
            assert_eq!(loaded(suite, &charge, at).await, None, "a peek left a state: {quota:?}");
        }
        let before = before_charge(suite, charge, at).await;
        assert_eq!(before, None, "a peek left a state under {quota:?}");
        let after = loaded(suite, &charge, at).await;
        assert!(after.is_some(), "a charge left no state under {quota:?}");
        for _ in 0..5 {
            let again = loaded(suite, &charge, suite.at(1_000)).await;
            assert_eq!(again, after, "a peek changed the state under {quota:?}");
        }
        let before = before_charge(suite, charge, at).await;
        assert_eq!(before, after, "a peek changed the state under {quota:?}");
        assert_eq!(suite.remaining(&limit, "someone", at).await, 2, "under {quota:?}");
    }
}

/// A denial and a `never` write nothing.
pub async fn denials_write_nothing<S: Store>(suite: &Suite<'_, S>) {
    for (index, quota) in every_quota(10, MONTH).iter().enumerate() {
        let limit = suite.limit(&format!("denial-{index}"), quota);
        let (some, most) = (limit.charge("someone"), limit.charge("someone").cost(cost(10)));
        let never = some.cost(cost(11));
        let at = suite.at(0);
        assert!(!suite.charge(never, at).await.expect("decides").is_allowed());
        assert_eq!(loaded(suite, &some, at).await, None, "`never` left a state: {quota:?}");
        assert!(suite.charge(some, at).await.expect("decides").is_allowed());
        let state = loaded(suite, &some, at).await;
        for denied in [most, never, most] {
            let decision = suite.charge(denied, suite.at(10)).await.expect("decides");
            assert!(!decision.is_allowed(), "{decision:?} under {quota:?}");
            assert_eq!(decision.remaining, 9, "a denial reports charged numbers: {quota:?}");
            assert_eq!(loaded(suite, &some, at).await, state, "a denial wrote: {quota:?}");
        }
    }
}

async fn loaded<S: Store>(
    suite: &Suite<'_, S>,
    charge: &Charge<'_>,
    at: CallContext<'_>,
) -> Option<State> {
    let loaded = suite.store().load(&[*charge], at).await.expect("a key can be loaded");
    loaded.states.into_iter().next().expect("one state per key")
}

/// Charges, and returns the state that the store found before.
async fn before_charge<S: Store>(
    suite: &Suite<'_, S>,
    charge: Charge<'_>,
    at: CallContext<'_>,
) -> Option<State> {
    let charges = [charge];
    let admission = tollgate_core::Admission::of(&charges);
    let outcome = suite.store().admit(&admission, at).await.expect("a charge is decided");
    outcome.before.into_iter().next().expect("one state per charge")
}
