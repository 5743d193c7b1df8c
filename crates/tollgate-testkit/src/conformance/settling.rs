//! Clauses about settling: the final cost of a charge counts, exactly, once, and into debt.

use tollgate_core::store::{CallContext, Evidence, MultiKey, Store};
use tollgate_core::{
    Admission, Charge, Code, Cost, Decision, Limit, Micros, Receipt, RequestId, Settlement,
};

use super::suite::{Suite, cost};
use super::{MONTH, every_quota, skipped};
use crate::derive::decisions_of;
use crate::runtime::join_all;

/// How often a settlement is sent at the same time.
const COPIES: usize = 100;

/// Less than was charged is given back, more is charged, into debt and no further than its bound. A
/// key in debt has nothing left, and passes after the wait that it states and not a millisecond
/// earlier.
pub async fn settles_down_up_and_into_debt<S: Store>(suite: &Suite<'_, S>) {
    // Every quota starts after the last one has expired: a floor that a store keeps is behind it.
    let mut after = 0;
    for (index, quota) in every_quota(10, MONTH).iter().enumerate() {
        after += 10 * MONTH;
        let limit = suite.limit(&format!("settle-{index}"), quota);
        let key = Key { suite, limit: &limit, subject: "someone", after };
        let taken = key.take(4).await;
        assert_eq!(key.settle(&taken, (4, 4)).await, Settlement::NOTHING, "{quota:?}");
        assert_eq!(key.settle(&taken, (4, 1)).await, Settlement::giving_back(3), "{quota:?}");
        assert_eq!(key.remaining().await, 9, "after less than was charged, under {quota:?}");
        let taken = key.take(2).await;
        assert_eq!(key.settle(&taken, (2, 5)).await, Settlement::charging(3, 0), "{quota:?}");
        assert_eq!(key.remaining().await, 4, "after more than was charged, under {quota:?}");
        // Six units are counted: fourteen more are the ceiling and as many again.
        assert_eq!(key.settle(&taken, (5, 12)).await, Settlement::charging(7, 0), "{quota:?}");
        assert_eq!(key.settle(&taken, (12, 30)).await, Settlement::charging(7, 11), "{quota:?}");
        assert_eq!(key.settle(&taken, (30, 31)).await, Settlement::charging(0, 1), "{quota:?}");
        // Without debt no more than what is left.
        let strict = limit.clone().max_debt(0);
        let strict = Key { suite, limit: &strict, subject: "no debt", after };
        let taken = strict.take(8).await;
        let settled = strict.settle(&taken, (8, u64::MAX)).await;
        assert_eq!((settled.charged, strict.remaining().await), (2, 0), "{quota:?}");
        assert_eq!(settled.dropped, u64::MAX - 10, "{quota:?}");
        key.is_in_debt().await;
    }
}

/// Settlements, checks and refunds at the same time count as one after the other.
pub async fn concurrent_settlements_count_exactly<S: Store>(suite: &Suite<'_, S>) {
    if !suite.capability().exact {
        return skipped("concurrent_settlements_count_exactly", "the store is not exact");
    }
    for (index, quota) in every_quota(1_000, MONTH).iter().enumerate() {
        let limit = suite.limit(&format!("settlements-{index}"), quota);
        let key = Key { suite, limit: &limit, subject: "hot", after: 0 };
        key.take(400).await;
        let charge = limit.charge("hot").cost(cost(4));
        let of = |number: u64| match number % 4 {
            0 => charge.settle(Receipt::Newest, 1),
            1 => charge.settle(Receipt::Newest, 9),
            2 => charge.refund(Receipt::Newest),
            _ => charge,
        };
        let all = (0..120).map(|number| async move {
            let admission = Admission::from(of(number));
            suite.admit(&admission, suite.at(0)).await.expect("decides").admitted
        });
        assert_eq!(join_all(all).await, [true; 120], "under {quota:?}");
        // Three and four units less, five and four more, thirty times each.
        assert_eq!(key.remaining().await, 600 + 30 * (3 + 4) - 30 * (5 + 4), "under {quota:?}");
    }
}

/// A settlement that is sent a hundred times at once under one request id is applied once, and
/// answered alike; another final cost under that id is a conflict.
pub async fn copies_of_a_settlement_apply_once<S: Store>(suite: &Suite<'_, S>) {
    if !suite.capability().idempotent {
        return skipped("copies_of_a_settlement_apply_once", "the store keeps no request ids");
    }
    for (index, quota) in every_quota(10, MONTH).iter().enumerate() {
        let limit = suite.limit(&format!("copies-{index}"), quota);
        for (subject, to, expected, room) in [
            ("down", 3, Settlement::giving_back(7), 17),
            ("up", 15, Settlement::charging(5, 0), 5),
            ("beyond", 99, Settlement::charging(10, 79), 0),
        ] {
            let key = Key { suite, limit: &limit, subject, after: 0 };
            let taken = key.take(10).await;
            let charge = limit.charge(subject).cost(cost(10));
            let charges = [charge.settle(receipt(&taken), to)];
            let settled = all_copies(suite, &charges, "settled").await;
            assert_eq!(settled, [expected], "{subject} under {quota:?}");
            let other = [charge.settle(receipt(&taken), to + 1)];
            let other = Admission::of(&other).request_id(once("settled"));
            let code = suite.admit(&other, suite.at(0)).await.map_err(|error| error.code());
            assert_eq!(code.err(), Some(Code::IdempotencyConflict), "{subject} under {quota:?}");
            // What may still be charged says what is owed.
            let more = key.settle(&taken, (1, 1 + 50)).await;
            assert_eq!(more, Settlement::charging(room, 50 - room), "{subject} under {quota:?}");
        }
    }
}

/// Several keys settle together, up and down, once under one request id.
pub async fn settlements_over_keys_apply_once<S: Store>(suite: &Suite<'_, S>) {
    let capability = suite.capability();
    if capability.multi_key == MultiKey::Unsupported || !capability.idempotent {
        return skipped("settlements_over_keys_apply_once", "one key, or no request ids");
    }
    for (index, quota) in every_quota(10, MONTH).iter().enumerate() {
        let limit = suite.limit(&format!("several-{index}"), quota);
        let subjects = ["a", "b", "c", "d"];
        let mut charges = Vec::new();
        for (subject, to) in subjects.into_iter().zip([1, 13, 0, 6]) {
            let key = Key { suite, limit: &limit, subject, after: 0 };
            let taken = key.take(6).await;
            charges.push(limit.charge(subject).cost(cost(6)).settle(receipt(&taken), to));
        }
        let settled = all_copies(suite, &charges, "several").await;
        let expected = [
            Settlement::giving_back(5),
            Settlement::charging(7, 0),
            Settlement::giving_back(6),
            Settlement::NOTHING,
        ];
        assert_eq!(settled, expected, "under {quota:?}");
        for (subject, left) in subjects.into_iter().zip([9, 0, 10, 4]) {
            let left_of_key = suite.remaining(&limit, subject, suite.at(0)).await;
            assert_eq!(left_of_key, left, "of {subject} under {quota:?}");
        }
    }
}

/// Sends copies at once; what each of them came to.
async fn all_copies<S: Store>(
    suite: &Suite<'_, S>,
    charges: &[Charge<'_>],
    id: &str,
) -> Vec<Settlement> {
    let admission = Admission::of(charges).request_id(once(id));
    let copies = (0..COPIES).map(|_| suite.store().admit(&admission, suite.at(0)));
    let outcomes: Vec<Evidence> =
        join_all(copies).await.into_iter().map(|copy| copy.expect("is answered")).collect();
    let first = outcomes.iter().filter(|outcome| outcome.replayed.is_none());
    // Over several parts each has a first one.
    let firsts = first.count();
    let is_atomic = suite.capability().multi_key != MultiKey::Compensated;
    assert!(firsts <= 1 && (firsts == 1 || !is_atomic), "{firsts} of {COPIES} were decided anew");
    let mut settled: Vec<Vec<Settlement>> = outcomes
        .iter()
        .map(|outcome| decisions_of(&admission, outcome).expect("evidence fits").settled)
        .collect();
    settled.dedup();
    assert_eq!(settled.len(), 1, "copies were answered differently: {settled:?}");
    settled.swap_remove(0)
}

fn once(id: &str) -> RequestId<'_> {
    RequestId::new(id).expect("the suite only uses accepted ids")
}

fn receipt(taken: &Decision) -> Receipt {
    taken.receipt().expect("an allowed charge has a receipt")
}

/// A key under one limit.
struct Key<'a, S> {
    suite: &'a Suite<'a, S>,
    limit: &'a Limit,
    subject: &'a str,
    /// When it is asked.
    after: Micros,
}

impl<S: Store> Key<'_, S> {
    fn at(&self, later: Micros) -> CallContext<'static> {
        self.suite.at(self.after + later)
    }

    async fn take(&self, units: u64) -> Decision {
        let charge = self.limit.charge(self.subject).cost(cost(units));
        let decision = self.suite.charge(charge, self.at(0)).await.expect("decides");
        assert!(decision.is_allowed(), "{decision:?}");
        decision
    }

    async fn settle(&self, taken: &Decision, (charged, to): (u64, u64)) -> Settlement {
        let charge = self.limit.charge(self.subject).cost(cost(charged));
        let admission = Admission::from(charge.settle(receipt(taken), to));
        let plan = self.suite.admit(&admission, self.at(0)).await.expect("settles");
        let standing = plan.decisions.first().expect("one decision per charge");
        assert!(plan.admitted && standing.is_allowed(), "a settlement was denied: {standing:?}");
        plan.settled.first().copied().expect("one settlement per charge")
    }

    async fn remaining(&self) -> u64 {
        self.suite.remaining(self.limit, self.subject, self.at(0)).await
    }

    /// Nothing is left, checks are denied, and pass after the wait and not a millisecond earlier.
    async fn is_in_debt(&self) {
        let mut waits = Vec::new();
        for units in [Cost::ONE, cost(10)] {
            let charge = self.limit.charge(self.subject).cost(units);
            let denied = self.suite.charge(charge, self.at(0)).await.expect("decides");
            assert!(!denied.is_allowed() && denied.remaining == 0, "{denied:?}");
            let wait = denied.retry_after_ms.expect("a denial says how long to wait");
            assert!(wait > 1, "{denied:?}");
            waits.push((charge, wait));
        }
        if !self.suite.injects_time() {
            return;
        }
        // What a store has forgotten at one of these instants must not matter at the next.
        for (earlier, expected) in [(1, false), (0, true)] {
            for (charge, wait) in &waits {
                let at = self.at((wait - earlier) * 1_000);
                let peeked = self.suite.peek(charge, at).await.expect("a key can be peeked").0;
                assert_eq!(peeked.is_allowed(), expected, "{earlier} ms before {wait} ms");
            }
        }
    }
}
