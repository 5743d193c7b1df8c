//! Callers whose time is up: others were in their way, or nobody answered.

use core::sync::atomic::Ordering;

use super::backend::Silence;
use super::*;
use crate::charge::RequestId;

type Callers<'a> = Sim<'a, Result<bool>>;

fn store() -> (ManualClock, Cas<Table>, Limit) {
    let clock = ManualClock::at(START);
    let store = cas(Table::multi_key(), &clock);
    (clock, store, per_hour("patience", 1_000))
}

/// Callers of one key, all of them in line.
fn callers<'a>(
    clock: &ManualClock,
    count: usize,
    (store, limit): (&'a Cas<Table>, &'a Limit),
) -> Callers<'a> {
    let mut sim = Sim::in_order(clock);
    for _ in 0..count {
        sim.spawn(check(store, limit.charge("one")));
    }
    (0..count).for_each(|index| sim.poll(index));
    sim
}

/// Steps until so many swaps are under way or were.
fn until_sent(sim: &mut Callers<'_>, store: &Cas<Table>, swaps: usize) {
    while Table::count(&store.backend().swaps_sent) < swaps {
        assert!(sim.step().is_some(), "everybody waits");
    }
}

fn be_silent(store: &Cas<Table>, silence: Silence) {
    *store.backend().silence.lock().unwrap() = Some(silence);
}

fn code_of(outputs: &mut [Option<Result<bool>>], index: usize) -> Option<Code> {
    code(outputs[index].take()?)
}

#[test]
fn a_caller_that_keeps_losing_says_so_when_its_time_is_up() {
    for silence in [None, Some(Silence::Everything)] {
        let (clock, store, limit) = store();
        store.backend().rivals.store(usize::MAX, Ordering::SeqCst);
        let mut sim = callers(&clock, 1, (&store, &limit));
        // At its second swap it has lost the first.
        while Table::count(&store.backend().swaps_sent) < 2 {
            if sim.step().is_none() {
                clock.advance(Duration::from_millis(2));
            }
        }
        silence.into_iter().for_each(|silence| be_silent(&store, silence));
        sim.give_up(0);
        assert_eq!(code_of(&mut sim.run(), 0), Some(Code::ConflictExhausted));
        assert_eq!(store.lanes.busy(), 0);
    }
}

#[test]
fn a_silent_backend_is_an_outage_whatever_it_is_silent_about() {
    for silence in [Silence::Everything, Silence::Swaps] {
        let (clock, store, limit) = store();
        be_silent(&store, silence);
        let mut sim = callers(&clock, 3, (&store, &limit));
        while sim.step().is_some() {}
        (0..3).for_each(|index| sim.give_up(index));
        let mut outputs = sim.run();
        assert!(outputs[0].is_none(), "{silence:?}: the leader has nothing to say");
        // Those behind it get their turn too late.
        for index in 1..3 {
            assert_eq!(code_of(&mut outputs, index), Some(Code::Timeout), "{silence:?}");
        }
    }
}

#[test]
fn whoever_waits_behind_others_that_are_served_was_held_up() {
    let (clock, store, limit) = store();
    let charges = [limit.charge("one")];
    let admit = async |id: &'static str| {
        let admission = Admission::of(&charges).request_id(RequestId::new(id).unwrap());
        store.admit(&admission, NOW).await.map(|_| true)
    };
    let mut sim = Sim::in_order(&clock);
    for id in ["a", "b", "c"] {
        let index = sim.spawn(admit(id));
        sim.poll(index);
    }
    while sim.is_alive(0) {
        sim.step();
    }
    // The first was served. The second has its turn, the third has not.
    sim.give_up(2);
    sim.give_up(1);
    let mut outputs = sim.run();
    assert!(matches!(outputs[0], Some(Ok(true))));
    assert_eq!(code_of(&mut outputs, 1), Some(Code::ConflictExhausted));
    assert_eq!(code_of(&mut outputs, 2), Some(Code::QueueFull));
}

#[test]
fn whoever_has_little_time_left_leaves_its_turn_to_the_next() {
    for is_served in [true, false] {
        let (clock, store, limit) = store();
        let mut sim = callers(&clock, 3, (&store, &limit));
        if is_served {
            // Nobody has looked yet: they come behind, not along.
            while sim.is_alive(0) {
                sim.poll(0);
            }
        } else {
            sim.drop_task(0);
        }
        let sent = Table::count(&store.backend().reads);
        sim.poll_late(1);
        assert_eq!(Table::count(&store.backend().reads), sent, "nothing was begun");
        let mut outputs = sim.run();
        // Anybody can make callers go away.
        assert_eq!(code_of(&mut outputs, 1), Some(Code::QueueFull));
        assert!(matches!(outputs[2], Some(Ok(true))), "the next goes on");
    }
}

#[test]
fn whoever_is_alone_uses_what_time_it_has() {
    let (clock, store, limit) = store();
    let mut sim = Sim::in_order(&clock);
    sim.spawn(check(&store, limit.charge("one")));
    while sim.is_alive(0) {
        sim.poll_late(0);
    }
    assert!(matches!(sim.run()[0], Some(Ok(true))));
}

#[test]
fn followers_of_a_leader_that_waited_in_vain_meet_an_outage() {
    let (clock, store, limit) = store();
    // The first goes alone and in vain, so that the second leads all others.
    let mut sim = callers(&clock, 10, (&store, &limit));
    sim.give_up(0);
    be_silent(&store, Silence::Swaps);
    until_sent(&mut sim, &store, 1);
    sim.give_up(1);
    let mut outputs = sim.run();
    for index in 2..10 {
        assert_eq!(code_of(&mut outputs, index), Some(Code::StoreUnavailable), "{index}");
    }
}

#[test]
fn followers_of_a_leader_that_was_held_up_were_held_up() {
    let (clock, store, limit) = store();
    store.backend().rivals.store(1, Ordering::SeqCst);
    let mut sim = callers(&clock, 1, (&store, &limit));
    until_sent(&mut sim, &store, 1);
    while sim.step().is_some() {}
    // It has lost, and others come who know nothing of that.
    for index in 1..10 {
        sim.spawn(check(&store, limit.charge("one")));
        sim.poll(index);
    }
    be_silent(&store, Silence::Swaps);
    clock.advance(Duration::from_millis(2));
    until_sent(&mut sim, &store, 2);
    sim.give_up(0);
    let mut outputs = sim.run();
    for index in 0..10 {
        assert_eq!(code_of(&mut outputs, index), Some(Code::ConflictExhausted), "{index}");
    }
}

/// A batch of forty keys, each with a swap of its own.
fn with_a_batch(act: impl FnOnce(&ManualClock, &Cas<Table>, &[Admission<'_>])) {
    let clock = ManualClock::at(START);
    let store = cas(Table::single_key(), &clock);
    let limit = per_hour("patience", 1_000);
    let subjects: Vec<String> = (0..40).map(|subject| format!("s{subject}")).collect();
    let charges: Vec<Charge<'_>> = subjects.iter().map(|subject| limit.charge(subject)).collect();
    let each = charges.iter().map(|charge| Admission::of(core::slice::from_ref(charge)));
    let batch: Vec<Admission<'_>> = each.collect();
    act(&clock, &store, &batch);
}

#[test]
fn a_batch_tells_who_met_others_and_who_met_silence() {
    with_a_batch(|clock, store, batch| {
        let mut sim = Sim::in_order(clock);
        sim.spawn(admit_many(store, &batch[..1], NOW));
        sim.spawn(admit_many(store, batch, NOW));
        // Somebody else has the first key, and is served; then the backend falls silent.
        sim.poll(0);
        sim.poll(1);
        while sim.is_alive(0) {
            sim.poll(0);
        }
        be_silent(store, Silence::Everything);
        sim.give_up(1);
        let answers = sim.run().remove(1).expect("the batch has ended");
        let codes: Vec<Option<Code>> = answers.into_iter().map(code).collect();
        assert_eq!(codes[0], Some(Code::ConflictExhausted), "it was held up");
        assert!(codes[1..32].iter().all(|code| *code == Some(Code::Timeout)), "{codes:?}");
        assert!(
            codes[32..].iter().all(|code| *code == Some(Code::QueueFull)),
            "not begun: {codes:?}"
        );
        assert_eq!((codes.len(), store.lanes.busy()), (40, 0));
    });
}

/// Whoever sends more than can be answered in time is not let in for what was under way then.
#[test]
fn a_batch_that_is_too_long_is_cut_off_by_itself() {
    with_a_batch(|clock, store, batch| {
        let mut sim = Sim::in_order(clock);
        sim.spawn(admit_many(store, batch, NOW));
        while Table::count(&store.backend().swaps_sent) <= 32 {
            sim.poll(0);
        }
        sim.give_up(0);
        let answers = sim.run().remove(0).expect("the batch has ended");
        let codes: Vec<Option<Code>> = answers.into_iter().map(code).collect();
        let count = |wanted: Option<Code>| codes.iter().filter(|code| **code == wanted).count();
        assert!(count(None) > 0 && count(Some(Code::ConflictExhausted)) > 0, "{codes:?}");
        assert_eq!(
            count(Some(Code::Timeout)) + count(Some(Code::StoreUnavailable)),
            0,
            "{codes:?}"
        );
    });
}

#[test]
fn what_a_leader_knew_is_told_to_those_behind_it_and_no_further() {
    let (clock, store, limit) = store();
    store.backend().rivals.store(1, Ordering::SeqCst);
    let mut sim = callers(&clock, 1, (&store, &limit));
    until_sent(&mut sim, &store, 1);
    while sim.step().is_some() {}
    // It has lost a race. Now the backend falls silent, and two come who have heard nothing of it.
    be_silent(&store, Silence::Everything);
    clock.advance(Duration::from_millis(2));
    for index in 1..3 {
        sim.spawn(check(&store, limit.charge("one")));
        sim.poll(index);
    }
    while sim.step().is_some() {}
    sim.give_up(0);
    let late = sim.spawn(check(&store, limit.charge("one")));
    sim.poll(late);
    (1..4).for_each(|index| sim.give_up(index));
    let mut outputs = sim.run();
    assert_eq!(code_of(&mut outputs, 0), Some(Code::ConflictExhausted));
    for index in 1..3 {
        assert_ne!(code_of(&mut outputs, index), Some(Code::Timeout), "{index} was held up");
    }
    assert_eq!(code_of(&mut outputs, late), Some(Code::Timeout), "silence is noticed at last");
}
