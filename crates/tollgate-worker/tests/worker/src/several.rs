//! Charges on several subjects, which are in different Durable Objects: all or nothing, once per
//! request id, and given back exactly.
#![expect(clippy::expect_used, reason = "in a test, a panic is the message")]

use core::time::Duration;

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Charge, Code, Cost, Limit, Quota, Receipt, RequestId};
use tollgate_testkit::derive::decisions_of;
use tollgate_testkit::helpers::{admitted, spent};
use tollgate_testkit::runtime::join_all;

/// Enough pairs that most of them are in two objects.
const PAIRS: usize = 8;
const CX: CallContext<'static> = CallContext::at(1_700_000_000_000_000);

fn limit(prefix: &str, policy: &str, units: u64) -> Limit {
    let month = Duration::from_secs(30 * 86_400);
    let limit = Limit::gcra(policy, Quota::new(units, month)).expect("an accepted quota");
    limit.with_prefix(prefix).expect("an accepted prefix")
}

/// The units that are spent on the keys of two charges.
async fn both_spent<S: Store>(store: &S, charges: &[Charge<'_>; 2]) -> [u64; 2] {
    let [left, right] = *charges;
    let left = spent(store, left, CX).await.expect("is read");
    [left, spent(store, right, CX).await.expect("is read")]
}

/// Panics if the store breaks it.
pub(crate) async fn several_subjects<S: Store>(store: &S, prefix: &str) {
    let (wide, narrow) = (limit(prefix, "wide", 10), limit(prefix, "narrow", 3));
    for pair in 0..PAIRS {
        let subjects = [format!("left-{pair}"), format!("right-{pair}")];
        let [left, right] = &subjects;
        let two = Cost::new(2).expect("an accepted cost");
        let charges = [wide.charge(left).cost(two), narrow.charge(right).cost(two)];
        denied_together(store, &charges).await;
        charged_once(store, &[wide.charge(left), narrow.charge(right)]).await;
    }
    contended(store, &wide, &narrow).await;
}

/// The second time does not fit: neither is charged, in either order.
async fn denied_together<S: Store>(store: &S, charges: &[Charge<'_>; 2]) {
    let [left, right] = *charges;
    let (forth, back) = ([left, right], [right, left]);
    assert!(admitted(store, &Admission::of(&forth), CX).await.expect("decides"));
    for admission in [Admission::of(&forth), Admission::of(&back)] {
        assert!(!admitted(store, &admission, CX).await.expect("decides"));
        assert_eq!(both_spent(store, charges).await, [2, 2], "a denied admission charged");
    }
}

/// A request id is charged once, bound to its payload; refunds give both units back.
async fn charged_once<S: Store>(store: &S, charges: &[Charge<'_>; 2]) {
    let once = Admission::of(charges).request_id(RequestId::new("id").expect("an accepted id"));
    let first = store.admit(&once, CX).await.expect("decides");
    let again = store.admit(&once, CX).await.expect("decides");
    assert!(first.replayed.is_none() && again.replayed.is_some(), "{first:?} {again:?}");
    let decided = |evidence| decisions_of(&once, evidence).expect("fits").decisions;
    assert_eq!(decided(&first), decided(&again));
    assert_eq!(both_spent(store, charges).await, [3, 3], "charged more than once");
    let [left, right] = *charges;
    let other = [left, right.cost(Cost::new(7).expect("an accepted cost"))];
    let mut other = Admission::of(&other);
    other.request_id = once.request_id;
    let refused = store.admit(&other, CX).await.map_err(|error| error.code());
    assert_eq!(refused.err(), Some(Code::IdempotencyConflict));
    let refunds = charges.map(|charge| charge.refund(Receipt::Newest));
    store.admit(&Admission::of(&refunds), CX).await.expect("gives back");
    assert_eq!(both_spent(store, charges).await, [2, 2], "not given back");
}

/// Concurrent admissions in opposite orders charge exactly what they admit.
async fn contended<S: Store>(store: &S, wide: &Limit, narrow: &Limit) {
    let forth = [wide.charge("hot-left"), narrow.charge("hot-right")];
    let [left, right] = forth;
    let back = [right, left];
    let admissions = [Admission::of(&forth), Admission::of(&back)];
    let all = admissions.iter().cycle().take(20);
    let passed = join_all(all.map(|admission| admitted(store, admission, CX))).await;
    let passed: u64 = passed.into_iter().map(|one| u64::from(one.expect("decides"))).sum();
    assert!(passed <= 3, "{passed} passed at a limit of 3");
    assert_eq!(both_spent(store, &forth).await, [passed; 2], "a denied admission charged");
}
