//! Charges over several parts of which one refuses: what an error says about the charge is true.

use std::future::Future;
use std::iter::repeat_n;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tollgate_core::algorithm::Gcra;
use tollgate_core::store::cas::{Swap, Version};
use tollgate_core::store::compensate::{Leg, Parts, admit};
use tollgate_core::store::detach::{Detached, Spawner};
use tollgate_core::store::{CallContext, CallFacts, Evidence, Loaded, Store, TimeSource};
use tollgate_core::{
    Admission, Charge, Code, Cost, Error, Key, Limit, ManualClock, Quota, Receipt, RequestId,
    Result, State,
};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::derive::decisions_of;
use tollgate_testkit::fault::{Fault, Faulty};
use tollgate_testkit::runtime::block_on;

const NOW: CallContext<'static> = CallContext::at(1_700_000_000_000_000);
const UNITS: u64 = 10;

/// Two stores that cannot be charged at once: the first has the keys of the policy `first`.
struct Halves {
    stores: [Faulty<ReferenceStore>; 2],
    spawner: Option<Spawner>,
}

impl Halves {
    fn new(first: Vec<Fault>, second: Vec<Fault>, spawner: Option<Spawner>) -> Arc<Self> {
        let store = |faults| Faulty::scripted(ReferenceStore::new(), ManualClock::at(0), faults);
        Arc::new(Self { stores: [store(first), store(second)], spawner })
    }

    fn of(&self, charges: &[Charge<'_>]) -> &Faulty<ReferenceStore> {
        &self.stores[self.part_of(&charges[0].key())]
    }

    /// Units that are spent in the first store.
    fn spent(&self) -> u64 {
        let limit = limit("first");
        let charge = limit.charge("k");
        let loaded = block_on(self.stores[0].inner().load(&[charge], NOW)).unwrap();
        let words = loaded.states[0].as_ref().map_or_else(Vec::new, |state| state.words.to_vec());
        UNITS - charge.rule().peek(&words, loaded.now, charge.cost).remaining
    }
}

impl Parts for Halves {
    type Part = usize;

    fn part_of(&self, key: &Key<'_>) -> usize {
        usize::from(!key.to_text().contains("first"))
    }

    async fn charge(&self, leg: &Leg<'_>, time: TimeSource, work: &Detached) -> Result<Evidence> {
        let admission = Admission::of(&leg.charges);
        self.of(&leg.charges).admit(&admission, work.context(time)).await
    }

    async fn settle(&self, settled: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.of(settled.charges()).admit(settled, cx).await
    }

    fn version_of(&self, _: &State) -> Option<Version> {
        None
    }

    async fn put_back(&self, _: &[Swap<'_>]) -> Result<bool> {
        Ok(false)
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.of(charges).inner().load(charges, cx).await
    }

    async fn record(&self, _: &str) -> Result<Option<String>> {
        Ok(None)
    }

    fn spawner(&self) -> Option<Spawner> {
        self.spawner
    }
}

fn limit(policy: &str) -> Limit {
    Limit::new(policy, Gcra::new(Quota::per_hour(UNITS)).unwrap()).unwrap()
}

/// Charges a unit of both parts.
fn refused(parts: &Arc<Halves>) -> Error {
    let limits = [limit("first"), limit("second")];
    let charges = [limits[0].charge("k"), limits[1].charge("k")];
    block_on(admit(parts, &Admission::of(&charges), NOW)).unwrap_err()
}

#[test]
fn parts_grant_a_range_what_the_scarcest_has_and_take_no_more() {
    for (spent_before, granted) in [(0, Some(8)), (7, Some(3)), (10, None)] {
        let parts = Halves::new(vec![], vec![], None);
        let limits = [limit("first"), limit("second")];
        if let Ok(cost) = Cost::new(spent_before) {
            let spend = [limits[1].charge("k").cost(cost)];
            block_on(parts.of(&spend).admit(&Admission::of(&spend), NOW)).unwrap();
        }
        let charges = limits.each_ref().map(|limit| limit.charge("k").up_to(Cost::new(8).unwrap()));
        let admission = Admission::of(&charges);
        let evidence = block_on(admit(&parts, &admission, NOW)).unwrap();
        for decision in decisions_of(&admission, &evidence).unwrap().decisions {
            assert_eq!(decision.granted().map(Cost::get), granted, "{decision:?}");
        }
        assert_eq!(parts.spent(), granted.unwrap_or(0), "after {spent_before} of the second part");
    }
}

/// A settlement of which a part did not answer is completed by the next one under its id, which
/// derives each part at the instant at which it was settled.
#[test]
fn parts_settle_once_under_an_id_however_often_a_part_fails() {
    for fault in [Fault::Before, Fault::After] {
        let parts = Halves::new(vec![], vec![Fault::None, fault], None);
        let limits = [limit("first"), limit("second")];
        let of_six = limits.each_ref().map(|limit| limit.charge("k").cost(Cost::new(6).unwrap()));
        let taken = block_on(admit(&parts, &Admission::of(&of_six), NOW)).unwrap();
        let taken = decisions_of(&Admission::of(&of_six), &taken).unwrap().decisions;
        let receipt = |part: usize| taken[part].receipt().unwrap();
        let charges = [of_six[0].settle(receipt(0), 2), of_six[1].settle(receipt(1), 2)];
        let id = RequestId::new("settled").unwrap().keep_for(Duration::from_secs(3_600));
        let admission = Admission::of(&charges).request_id(id);
        // Ten units an hour: ten minutes later 1.67 of them have decayed.
        let later = |minutes: u64| CallContext::at(1_700_000_000_000_000 + minutes * 60_000_000);
        let failed = block_on(admit(&parts, &admission, NOW)).unwrap_err();
        assert!(failed.is_outage() && !failed.is_not_sent(), "{failed}");
        assert_eq!(parts.spent(), 2, "the first part was settled");
        let mut seen = Vec::new();
        for minutes in [25, 26, 30] {
            let evidence = block_on(admit(&parts, &admission, later(minutes))).unwrap();
            assert!(evidence.replayed.is_some());
            let plan = decisions_of(&admission, &evidence).unwrap();
            seen.push((plan.settled, plan.decisions));
        }
        seen.dedup();
        let [(settled, decisions)] = &*seen else { panic!("answers differ: {seen:?}") };
        let given_back: Vec<u64> = settled.iter().map(|one| one.given_back).collect();
        // Of the second part 4.17 units had decayed by the second attempt, 1.83 came back.
        let second = if fault == Fault::After { 4 } else { 2 };
        assert_eq!(given_back, [4, second]);
        assert_eq!(decisions[0].remaining, 8);
        assert_eq!(parts.spent(), 2, "the first part was settled twice");
    }
}

#[test]
fn settlements_over_parts_come_without_charges() {
    let parts = Halves::new(vec![], vec![], None);
    let limits = [limit("first"), limit("second")];
    let charges = [limits[0].charge("k"), limits[1].charge("k").settle(Receipt::Newest, 2)];
    let refused = block_on(admit(&parts, &Admission::of(&charges), NOW)).unwrap_err();
    assert_eq!((refused.code(), refused.is_not_sent()), (Code::Unsupported, true), "{refused}");
    assert_eq!(parts.spent(), 0);
}

const CLAIM_NOTHING: [Code; 3] = [Code::ConflictExhausted, Code::QueueFull, Code::StoreFull];

#[test]
fn a_refusal_is_passed_on_when_all_was_undone() {
    for code in CLAIM_NOTHING {
        let parts = Halves::new(vec![], vec![Fault::Reject(code)], None);
        let error = refused(&parts);
        assert_eq!((error.code(), error.is_not_sent(), parts.spent()), (code, true, 0), "{error}");
    }
}

#[test]
fn a_refusal_with_a_part_that_stays_spent_is_an_unknown_outcome() {
    for code in CLAIM_NOTHING {
        let silent = vec![Fault::None, Fault::Before];
        let parts = Halves::new(silent, vec![Fault::Reject(code)], None);
        let error = refused(&parts);
        let expected = (Code::StoreUnavailable, false, 1);
        assert_eq!((error.code(), error.is_not_sent(), parts.spent()), expected, "{error}");
        assert!(error.message().contains("may be spent"), "{error}");
    }
}

#[test]
fn a_refusal_that_contention_kept_from_being_undone_is_an_unknown_outcome() {
    let lost = Fault::Reject(Code::ConflictExhausted);
    let contended: Vec<Fault> = [Fault::None].into_iter().chain(repeat_n(lost, 1_000)).collect();
    let error = refused(&Halves::new(contended, vec![Fault::Reject(Code::QueueFull)], None));
    assert_eq!((error.code(), error.is_not_sent()), (Code::Timeout, false), "{error}");
}

/// What a caller reports whose deadline expires while the second part loses races.
fn given_up(spawner: Option<Spawner>) -> Error {
    let parts = Halves::new(vec![], vec![Fault::Lose], spawner);
    let limits = [limit("first"), limit("second")];
    let charges = [limits[0].charge("k"), limits[1].charge("k")];
    let (admission, facts) = (Admission::of(&charges), CallFacts::new());
    {
        let mut call = pin!(admit(&parts, &admission, NOW.with_facts(&facts)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(call.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(parts.spent(), 1);
    facts.expired()
}

/// Contention is never an outage; but a part is charged at that moment.
#[test]
fn a_caller_that_leaves_work_behind_is_not_told_that_nothing_was_charged() {
    let error = given_up(Some(std::mem::forget));
    assert_eq!((error.code(), error.is_not_sent()), (Code::ConflictExhausted, false), "{error}");
    assert!(error.message().contains("being undone"), "{error}");
}

#[test]
fn a_caller_whose_work_ends_with_it_has_an_unknown_outcome() {
    let error = given_up(None);
    assert_eq!((error.code(), error.is_not_sent()), (Code::Timeout, false), "{error}");
    assert!(error.message().contains("may be spent"), "{error}");
}
