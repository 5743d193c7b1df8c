//! Clauses about request ids: charged at most once, however often they are sent.

use tollgate_core::store::{Bounds, MultiKey, Store, WhenIdsFull};
use tollgate_core::{Admission, Code, Decision, RequestId};

use super::suite::{Suite, cost};
use super::{MONTH, SECOND, every_quota, skipped};
use crate::model::ModelQuota;
use crate::runtime::join_all;

fn applies<S: Store>(suite: &Suite<'_, S>, clause: &str) -> bool {
    let idempotent = suite.capability().idempotent;
    if !idempotent {
        skipped(clause, "the store keeps no request ids");
    }
    idempotent
}

fn once(id: &str) -> RequestId<'_> {
    RequestId::new(id).expect("the suite only uses accepted ids")
}

fn gcra(limit: u64, period_us: u64) -> ModelQuota {
    ModelQuota::Gcra { limit, period_us, burst: limit }
}

/// A replay returns the decision of the first time and charges nothing, also later, after other
/// charges, and under a changed quota.
pub async fn request_id_replays_the_decision<S: Store>(suite: &Suite<'_, S>) {
    if !applies(suite, "request_id_replays_the_decision") {
        return;
    }
    for (index, quota) in every_quota(10, MONTH).iter().enumerate() {
        let limit = suite.limit(&format!("replay-{index}"), quota);
        // A key that has a state: the record must keep what was there before.
        assert!(
            suite.charge(limit.charge("someone"), suite.at(0)).await.expect("decides").is_allowed()
        );
        let charge = limit.charge("someone").cost(cost(3));
        let (first, outcome) =
            suite.charge_once(charge, once("id"), suite.at(0)).await.expect("decides");
        assert!(first.is_allowed() && outcome.replayed.is_none(), "{first:?} under {quota:?}");
        let other = limit.charge("someone").cost(cost(2));
        assert!(suite.charge(other, suite.at(10)).await.expect("decides").is_allowed());
        let changed = suite.limit(&format!("replay-{index}"), &gcra(7, SECOND));
        let under_changed = changed.charge("someone").cost(cost(3));
        for (again, after) in [(charge, 0), (charge, 2 * SECOND), (under_changed, 3 * SECOND)] {
            let replay = suite.charge_once(again, once("id"), suite.at(after)).await;
            let (decision, outcome) = replay.expect("a replay is answered");
            assert!(outcome.replayed.is_some(), "a replay was decided anew under {quota:?}");
            assert_eq!(decision, first, "a replay answers otherwise under {quota:?}");
        }
        let left = suite.remaining(&limit, "someone", suite.at(10)).await;
        assert_eq!(left, 4, "a replay charged under {quota:?}");
    }
}

/// The same id with another cost is a conflict, and charges nothing.
pub async fn request_id_with_another_cost_conflicts<S: Store>(suite: &Suite<'_, S>) {
    if !applies(suite, "request_id_with_another_cost_conflicts") {
        return;
    }
    let limit = suite.limit("conflict", &gcra(10, MONTH));
    let charge = limit.charge("someone");
    suite.charge_once(charge, once("id"), suite.at(0)).await.expect("decides");
    for units in [2, 10, 11] {
        let other = suite.charge_once(charge.cost(cost(units)), once("id"), suite.at(0)).await;
        let code = other.map_err(|error| error.code());
        assert_eq!(code.err(), Some(Code::IdempotencyConflict), "with cost {units}");
    }
    assert_eq!(suite.remaining(&limit, "someone", suite.at(0)).await, 9, "a conflict charged");
    let (_, outcome) = suite.charge_once(charge, once("id"), suite.at(0)).await.expect("decides");
    assert!(outcome.replayed.is_some(), "a conflict dropped the record");
}

/// The same id on another key, or under another policy, is another request.
pub async fn request_ids_are_scoped_to_their_key<S: Store>(suite: &Suite<'_, S>) {
    if !applies(suite, "request_ids_are_scoped_to_their_key") {
        return;
    }
    let limits = ["one", "two"].map(|policy| suite.limit(policy, &gcra(10, MONTH)));
    for limit in &limits {
        for (subject, units) in [("a", 1), ("b", 2), ("", 3), ("a:id", 4), ("💶", 5)] {
            let charge = limit.charge(subject).cost(cost(units));
            let charged = suite.charge_once(charge, once("id"), suite.at(0)).await;
            let (_, outcome) = charged.expect("another key is another request");
            assert!(outcome.replayed.is_none(), "an id leaked to {subject:?}");
            let left = suite.remaining(limit, subject, suite.at(0)).await;
            assert_eq!(left, 10 - units, "on {subject:?}");
        }
    }
    // Ids are compared byte by byte.
    let charge = limits[0].charge("ids");
    let long = "i".repeat(64);
    for (id, left) in [("i", 9), ("I", 8), ("i ", 7), ("%", 6), ("ä:{}", 5), (&*long, 4)] {
        let charged = suite.charge_once(charge, once(id), suite.at(0)).await.expect("decides");
        assert_eq!(charged.0.remaining, left, "the id {id:?} met another");
    }
}

/// An id covers all charges of its admission: charged once together, bound to every cost.
pub async fn request_ids_cover_all_charges<S: Store>(suite: &Suite<'_, S>) {
    if !applies(suite, "request_ids_cover_all_charges") {
        return;
    }
    if suite.capability().multi_key != MultiKey::Atomic {
        return skipped("request_ids_cover_all_charges", "several keys are not one atomic act");
    }
    let limits = ["one", "two"].map(|policy| suite.limit(policy, &gcra(10, MONTH)));
    let [one, two] = &limits;
    let charges = [one.charge("a").cost(cost(2)), two.charge("a").cost(cost(3))];
    let admission = Admission::of(&charges).request_id(once("id"));
    let first = suite.admit(&admission, suite.at(0)).await.expect("decides");
    let again = suite.admit(&admission, suite.at(SECOND)).await.expect("a replay is answered");
    assert_eq!(first.decisions, again.decisions, "a replay answers otherwise");
    let other = [charges[0], two.charge("a").cost(cost(4))];
    let other = suite.admit(&Admission::of(&other).request_id(once("id")), suite.at(0)).await;
    assert_eq!(other.map_err(|error| error.code()).err(), Some(Code::IdempotencyConflict));
    assert_eq!(suite.remaining(one, "a", suite.at(0)).await, 8, "charged twice");
    assert_eq!(suite.remaining(two, "a", suite.at(0)).await, 7, "charged twice");
}

/// An id that was denied is decided anew: a caller that waits and retries with it is allowed.
pub async fn denied_request_ids_are_decided_anew<S: Store>(suite: &Suite<'_, S>) {
    if !applies(suite, "denied_request_ids_are_decided_anew") {
        return;
    }
    // The wait is shorter than a record would be kept.
    let limit = suite.limit("denied", &gcra(1, 60 * SECOND));
    let charge = limit.charge("someone");
    suite.charge(charge, suite.at(0)).await.expect("decides");
    let (denied, _) = suite.charge_once(charge, once("id"), suite.at(0)).await.expect("decides");
    assert!(!denied.is_allowed(), "{denied:?}");
    let wait = denied.retry_after_ms.expect("a denial says how long to wait");
    if !suite.injects_time() {
        suite.store().reset(charge.key(), suite.at(0)).await.expect("a key can be reset");
    }
    let later = suite.at(wait * 1_000);
    let (allowed, outcome) = suite.charge_once(charge, once("id"), later).await.expect("decides");
    assert!(allowed.is_allowed() && outcome.replayed.is_none(), "a denial was saved: {allowed:?}");
}

/// A record lasts as long as it was asked to, and not much longer.
pub async fn request_ids_expire<S: Store>(suite: &Suite<'_, S>) {
    if !applies(suite, "request_ids_expire") {
        return;
    }
    if !suite.injects_time() {
        return skipped("request_ids_expire", "time cannot be injected");
    }
    let limit = suite.limit("expiry", &gcra(10, MONTH));
    let charge = limit.charge("someone");
    let brief = once("id").keep_for(std::time::Duration::from_secs(5));
    let replayed = async |after| {
        let charged = suite.charge_once(charge, brief, suite.at(after)).await;
        charged.expect("decides").1.replayed.is_some()
    };
    assert!(!replayed(0).await);
    assert!(replayed(5 * SECOND - 1_000).await, "a record was dropped before its time");
    assert!(!replayed(11 * SECOND).await, "a record outlived its time");
    assert_eq!(suite.remaining(&limit, "someone", suite.at(11 * SECOND)).await, 8);
}

/// 50 concurrent copies of one request charge once, and all get the same answer.
pub async fn concurrent_copies_charge_once<S: Store>(suite: &Suite<'_, S>) {
    if !applies(suite, "concurrent_copies_charge_once") {
        return;
    }
    for (index, quota) in every_quota(100, MONTH).iter().enumerate() {
        let limit = suite.limit(&format!("copies-{index}"), quota);
        let charge = limit.charge("hot").cost(cost(7));
        let copies = (0..50).map(|_| suite.charge_once(charge, once("id"), suite.at(0)));
        let answers = join_all(copies).await;
        let answers: Vec<(Decision, bool)> = answers
            .into_iter()
            .map(|answer| answer.expect("a copy is answered"))
            .map(|(decision, outcome)| (decision, outcome.replayed.is_none()))
            .collect();
        let first = answers.iter().filter(|(_, decided)| *decided).count();
        assert_eq!(first, 1, "copies were decided more than once under {quota:?}");
        let same = answers.windows(2).all(|pair| matches!(pair, [a, b] if a.0 == b.0));
        assert!(same, "copies got different answers under {quota:?}: {answers:?}");
        assert_eq!(suite.remaining(&limit, "hot", suite.at(0)).await, 93, "under {quota:?}");
    }
}

/// Under a limit that says so, a full table refuses new ids with `queue_full`, charges nothing for
/// them, and drops no old one.
pub async fn request_id_bound_refuses_and_drops_nothing<S: Store>(suite: &Suite<'_, S>) {
    const CLAUSE: &str = "request_id_bound_refuses_and_drops_nothing";
    if !applies(suite, CLAUSE) {
        return;
    }
    let Some(records_max) = suite.options().records_max else {
        return skipped(CLAUSE, "the bound was not configured (`Options::records_max`)");
    };
    let refuse = Bounds::new().when_ids_full(WhenIdsFull::Refuse);
    let limit = suite.limit("bound", &gcra(1_000_000, MONTH)).bounded(refuse);
    let charge = limit.charge("someone");
    // A table in shards may refuse a little earlier or later, but it must refuse, and stay bounded.
    let mut accepted = Vec::new();
    for id in (0..3 * records_max).map(|number| format!("id-{number}")) {
        match suite.charge_once(charge, once(&id), suite.at(0)).await {
            Ok(_) => accepted.push(id),
            Err(error) => assert_eq!(error.code(), Code::QueueFull, "{error}"),
        }
    }
    let count = accepted.len();
    assert!((1..=2 * records_max).contains(&count), "{count} ids of {records_max} are kept");
    let spent = 1_000_000 - suite.remaining(&limit, "someone", suite.at(0)).await;
    assert_eq!(u64::try_from(count), Ok(spent), "a refused id was charged");
    for id in &accepted {
        let replay = suite.charge_once(charge, once(id), suite.at(0)).await.expect("answers");
        assert!(replay.1.replayed.is_some(), "the record of {id} was dropped");
    }
    assert!(suite.charge(charge, suite.at(0)).await.expect("decides").is_allowed());
    if suite.injects_time() {
        let later = suite.at(RequestId::DEFAULT_KEEP + 120 * SECOND);
        let room = suite.charge_once(charge, once("a new one"), later).await;
        assert!(room.is_ok(), "expired records still take room: {room:?}");
    }
}
