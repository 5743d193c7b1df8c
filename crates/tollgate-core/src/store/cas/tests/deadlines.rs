//! Callers whose deadline expires: others were in their way, or nothing was answered.

use core::sync::atomic::Ordering;

use super::backend::Silence;
use super::*;
use crate::charge::RequestId;
use crate::store::BatchResults;

/// Callers of one key whose facts can be read when they are cancelled.
struct Callers<'a> {
    sim: Sim<'a, Result<bool>>,
    facts: &'a [CallFacts],
    store: &'a Cas<Table>,
    limit: &'a Limit,
}

impl<'a> Callers<'a> {
    /// All of them wait in order.
    fn new(
        clock: &ManualClock,
        count: usize,
        (store, limit, facts): (&'a Cas<Table>, &'a Limit, &'a [CallFacts]),
    ) -> Self {
        let mut callers = Self { sim: Sim::in_order(clock), facts, store, limit };
        for _ in 0..count {
            callers.join();
        }
        callers
    }

    fn join(&mut self) -> usize {
        let (store, charge) = (self.store, self.limit.charge("one"));
        let facts = &self.facts[self.sim.len()];
        let index = self.sim.spawn(async move {
            let admission = [charge];
            let outcome = store.admit(&Admission::of(&admission), NOW.with_facts(facts)).await?;
            Ok(decision(&charge, &outcome).is_allowed())
        });
        self.sim.poll(index);
        index
    }

    /// Its deadline expires, as the limiter says it: the code, and whether it is known that nothing
    /// was charged.
    fn expire(&mut self, index: usize) -> (Code, bool) {
        assert!(self.sim.is_alive(index), "{index} was answered");
        self.sim.drop_task(index);
        let error = self.facts[index].expired();
        (error.code(), error.is_not_sent())
    }

    /// Steps until this many swaps are under way or were.
    fn until_sent(&mut self, swaps: usize) {
        while Table::count(&self.store.backend().swaps_sent) < swaps {
            assert!(self.sim.step().is_some(), "all tasks wait");
        }
    }

    fn settle(&mut self) {
        while self.sim.step().is_some() {}
    }
}

const SENT: (Code, bool) = (Code::Timeout, false);
const SILENT: (Code, bool) = (Code::Timeout, true);
const LOST: (Code, bool) = (Code::ConflictExhausted, true);
const QUEUED: (Code, bool) = (Code::QueueFull, true);

fn store() -> (ManualClock, Cas<Table>, Limit, Vec<CallFacts>) {
    let clock = ManualClock::at(START);
    let store = cas(Table::multi_key(), &clock);
    let facts = (0..20).map(|_| CallFacts::new()).collect();
    (clock, store, per_hour("deadlines", 1_000), facts)
}

fn be_silent(store: &Cas<Table>, silence: Silence) {
    *store.backend().silence.lock().unwrap() = Some(silence);
}

#[test]
fn a_caller_that_lost_a_race_says_so_unless_its_next_swap_was_sent() {
    let (clock, store, limit, facts) = store();
    store.backend().rivals.store(usize::MAX, Ordering::SeqCst);
    for (polls, expected) in [(0, LOST), (2, LOST), (3, SENT)] {
        let mut callers = Callers::new(&clock, 1, (&store, &limit, &facts));
        let sent = Table::count(&store.backend().swaps_sent);
        callers.until_sent(sent + 1);
        callers.settle();
        // It waits after its first loss; then it reads; then its second swap is under way.
        clock.advance(Duration::from_millis(2));
        (0..polls).for_each(|_| callers.sim.poll(0));
        let is_sent = Table::count(&store.backend().swaps_sent) == sent + 2;
        assert_eq!(is_sent, expected == SENT, "{polls} polls");
        assert_eq!(callers.expire(0), expected, "{polls} polls");
        assert_eq!(store.queues.busy(), 0);
        facts[0].reset();
    }
}

#[test]
fn a_silent_backend_is_an_outage_whatever_it_is_silent_about() {
    for (silence, leader) in [(Silence::Everything, SILENT), (Silence::Swaps, SENT)] {
        let (clock, store, limit, facts) = store();
        be_silent(&store, silence);
        let mut callers = Callers::new(&clock, 3, (&store, &limit, &facts));
        callers.settle();
        // Those behind it were not sent, and saw no round answered.
        assert_eq!(callers.expire(2), SILENT, "{silence:?}");
        assert_eq!(callers.expire(0), leader, "{silence:?}");
        assert_eq!(callers.expire(1), SILENT, "{silence:?}");
        assert_eq!(store.queues.busy(), 0);
    }
}

#[test]
fn a_caller_behind_others_that_are_served_was_queued_and_is_not_charged() {
    let (clock, store, limit, facts) = store();
    let charges = [limit.charge("one")];
    let admit = async |id: &'static str, facts: &CallFacts| {
        let admission = Admission::of(&charges).request_id(RequestId::new(id).unwrap());
        store.admit(&admission, NOW.with_facts(facts)).await.map(|_| true)
    };
    let mut sim = Sim::in_order(&clock);
    for (id, facts) in ["a", "b", "c"].into_iter().zip(&facts) {
        let index = sim.spawn(admit(id, facts));
        sim.poll(index);
    }
    while sim.is_alive(0) {
        sim.step();
    }
    // The first was served. The second has its turn and reads, the third has not.
    [2, 1].into_iter().for_each(|index| sim.drop_task(index));
    for facts in &facts[1..3] {
        assert_eq!((facts.expired().code(), facts.expired().is_not_sent()), QUEUED);
    }
    assert!(matches!(sim.run()[0], Some(Ok(true))));
    assert_eq!(stored(&store, &limit.charge("one")), 1);
}

/// Keys on a backend that accepts one call at a time: all but the first wait for a permit.
fn with_one_call_at_a_time(silence: Option<Silence>) -> [(Code, bool); 3] {
    let clock = ManualClock::at(START);
    let store = cas(Table::multi_key().with_call_limit(1), &clock);
    *store.backend().silence.lock().unwrap() = silence;
    let limit = per_hour("permits", 1_000);
    let facts: Vec<CallFacts> = (0..3).map(|_| CallFacts::new()).collect();
    let admit = async |key: &'static str, facts: &CallFacts| {
        let charge = [limit.charge(key)];
        store.admit(&Admission::of(&charge), NOW.with_facts(facts)).await.map(|_| true)
    };
    let mut sim = Sim::in_order(&clock);
    for (key, facts) in ["a", "b", "c"].into_iter().zip(&facts) {
        let index = sim.spawn(admit(key, facts));
        sim.poll(index);
    }
    while sim.is_alive(0) && sim.step().is_some() {}
    // Both are woken by the answer.
    [1, 2].into_iter().for_each(|index| sim.poll(index));
    [2, 1, 0].into_iter().for_each(|index| sim.drop_task(index));
    assert_eq!(stored(&store, &limit.charge("b")) + stored(&store, &limit.charge("c")), 0);
    assert_eq!(store.queues.busy(), 0);
    core::array::from_fn(|index| {
        (facts[index].expired().code(), facts[index].expired().is_not_sent())
    })
}

#[test]
fn a_round_that_waits_for_a_permit_while_others_are_answered_was_queued() {
    let [_, second, third] = with_one_call_at_a_time(None);
    assert_eq!([second, third], [QUEUED; 2]);
    assert_eq!(with_one_call_at_a_time(Some(Silence::Swaps)), [SENT, SILENT, SILENT]);
}

#[test]
fn a_leader_whose_deadline_expires_concerns_no_other() {
    for silence in [None, Some(Silence::Swaps)] {
        let (clock, store, limit, facts) = store();
        // The first goes alone, so that the second leads all others.
        let mut callers = Callers::new(&clock, 10, (&store, &limit, &facts));
        while callers.sim.is_alive(0) {
            callers.sim.step();
        }
        silence.into_iter().for_each(|silence| be_silent(&store, silence));
        callers.until_sent(2);
        assert_eq!(callers.expire(1), SENT);
        if silence.is_some() {
            callers.settle();
            for index in 2..10 {
                assert_eq!(callers.expire(index), SENT, "{index}: by facts of its own");
            }
            assert_eq!(store.queues.busy(), 0);
            continue;
        }
        let outputs = callers.sim.run();
        let allowed = outputs.iter().flatten().filter(|one| matches!(one, Ok(true))).count();
        assert_eq!(allowed, 9, "the others are answered");
        assert_eq!(Table::count(&store.backend().swaps_sent), 2, "by the same swap");
    }
}

#[test]
fn what_a_leader_has_lost_is_no_fact_of_those_that_came_later() {
    let (clock, store, limit, facts) = store();
    store.backend().rivals.store(1, Ordering::SeqCst);
    let mut callers = Callers::new(&clock, 1, (&store, &limit, &facts));
    callers.until_sent(1);
    callers.settle();
    // It has lost a race. Now the backend falls silent, and others come.
    be_silent(&store, Silence::Everything);
    let late: Vec<usize> = (0..2).map(|_| callers.join()).collect();
    clock.advance(Duration::from_millis(2));
    callers.settle();
    assert_eq!(callers.expire(0), LOST);
    for index in late {
        assert_eq!(callers.expire(index), SILENT, "{index}: a silent backend is noticed at once");
    }
}

/// A batch of forty keys, each with a swap of its own.
fn with_a_batch(act: impl FnOnce(&ManualClock, &Cas<Table>, &[Admission<'_>])) {
    let clock = ManualClock::at(START);
    let store = cas(Table::single_key(), &clock);
    let limit = per_hour("deadlines", 1_000);
    let subjects: Vec<String> = (0..40).map(|subject| format!("s{subject}")).collect();
    let charges: Vec<Charge<'_>> = subjects.iter().map(|subject| limit.charge(subject)).collect();
    let each = charges.iter().map(|charge| Admission::of(core::slice::from_ref(charge)));
    let batch: Vec<Admission<'_>> = each.collect();
    act(&clock, &store, &batch);
}

fn codes(results: &BatchResults) -> Vec<Option<(Code, bool)>> {
    let code = |one: Result<Evidence>| one.err().map(|error| (error.code(), error.is_not_sent()));
    results.expired(&CallFacts::new()).into_iter().map(code).collect()
}

#[test]
fn each_admission_of_a_batch_is_classified_by_its_own_facts() {
    with_a_batch(|clock, store, batch| {
        let (first, results) = (BatchResults::new(1), BatchResults::new(40));
        let mut sim = Sim::in_order(clock);
        sim.spawn(store.admit_many(&batch[..1], &first, NOW));
        sim.spawn(store.admit_many(batch, &results, NOW));
        // Another caller has the first key, and is served; then the backend falls silent.
        sim.poll(0);
        sim.poll(1);
        while sim.is_alive(0) {
            sim.poll(0);
        }
        be_silent(store, Silence::Everything);
        sim.drop_task(1);
        let codes = codes(&results);
        assert_eq!(codes[0], Some(QUEUED), "it was queued behind a call that was served");
        assert!(codes[1..32].iter().all(|code| *code == Some(SILENT)), "reading: {codes:?}");
        assert!(codes[32..].iter().all(|code| *code == Some(SILENT)), "not begun: {codes:?}");
        assert_eq!((codes.len(), store.queues.busy()), (40, 0));
    });
}

#[test]
fn answers_of_a_batch_that_arrived_before_the_deadline_are_kept() {
    with_a_batch(|clock, store, batch| {
        let results = BatchResults::new(40);
        let mut sim = Sim::in_order(clock);
        sim.spawn(store.admit_many(batch, &results, NOW));
        while Table::count(&store.backend().swaps_sent) <= 32 {
            sim.poll(0);
        }
        sim.drop_task(0);
        let codes = codes(&results);
        let count =
            |wanted: Option<(Code, bool)>| codes.iter().filter(|code| **code == wanted).count();
        assert!(count(None) > 0 && count(Some(SENT)) > 0, "{codes:?}");
        assert_eq!(count(None) + count(Some(SENT)) + count(Some(SILENT)), 40, "{codes:?}");
    });
}
