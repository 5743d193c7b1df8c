//! Lost races and failing backends: bounded retries, waits on the given clock, exact errors.

use core::sync::atomic::Ordering;

use super::backend::Fault;
use super::*;
use crate::clock::Clock as _;

fn rivalled(retries: u32, rivals: usize) -> (ManualClock, Cas<Table>, Limit) {
    let clock = ManualClock::at(START);
    let store = cas(Table::single_key(), &clock).retries(Retries::default().max_retries(retries));
    store.backend().rivals.store(rivals, Ordering::SeqCst);
    (clock, store, per_hour("race", 1_000))
}

#[test]
fn a_race_that_is_lost_too_often_is_given_up_and_charges_nothing() {
    let (clock, store, limit) = rivalled(3, usize::MAX);
    let mut sim = Sim::in_order(&clock);
    sim.spawn(check(&store, limit.charge("one")));
    let output = sim.run().remove(0).unwrap();
    assert_eq!(code(output), Some(Code::ConflictExhausted));
    let table = store.backend();
    assert_eq!(Table::count(&table.swaps_sent), 4, "one try and three more");
    assert_eq!(stored(&store, &limit.charge("one")), 0);
    assert_eq!(store.queues.busy(), 0);
}

#[test]
fn a_race_lost_as_often_as_allowed_is_still_won() {
    let (clock, store, limit) = rivalled(3, 3);
    let mut sim = Sim::in_order(&clock);
    sim.spawn(check(&store, limit.charge("one")));
    assert!(matches!(sim.run().remove(0), Some(Ok(true))));
    assert_eq!(stored(&store, &limit.charge("one")), 1);
}

#[test]
fn no_admission_takes_part_in_more_attempts_than_allowed() {
    let (clock, store, limit) = rivalled(2, usize::MAX);
    let mut sim = Sim::in_order(&clock);
    for _ in 0..20 {
        sim.spawn(check(&store, limit.charge("one")));
    }
    (0..20).for_each(|index| sim.poll(index));
    for output in sim.run() {
        assert_eq!(code(output.unwrap()), Some(Code::ConflictExhausted));
    }
    // The first tries alone; then it leads the others, who give up with it or one attempt later.
    let attempts = Table::count(&store.backend().swaps_sent);
    assert!((3..=4).contains(&attempts), "{attempts}");
    assert_eq!(stored(&store, &limit.charge("one")), 0);
    // The key is not harmed.
    store.backend().rivals.store(0, Ordering::SeqCst);
    assert!(block_on(check(&store, limit.charge("one"))).unwrap());
}

#[test]
fn a_lost_race_waits_on_the_given_clock_and_on_nothing_else() {
    let (clock, store, limit) = rivalled(5, 1);
    let store = store.retries(
        Retries::default().base_backoff(Duration::from_secs(1)).max_backoff(Duration::from_secs(9)),
    );
    let mut sim = Sim::in_order(&clock);
    let task = sim.spawn(check(&store, limit.charge("one")));
    while sim.step().is_some() {}
    assert!(sim.is_alive(task), "it waits although the clock stands still");
    assert_eq!(Table::count(&store.backend().swaps_sent), 1);
    clock.advance(Duration::from_secs(1));
    while sim.step().is_some() {}
    assert!(!sim.is_alive(task), "one second was the longest wait");
    assert_eq!(clock.now(), START + 1_000_000);
}

#[test]
fn two_processes_race_with_few_retries_and_the_books_stay_right() {
    let mut exhausted = 0;
    for seed in 0..80 {
        let clock = ManualClock::at(START);
        let table = std::sync::Arc::new(Table::multi_key());
        let stores = [0, 1, 2, 3]
            .map(|_| cas(table.clone(), &clock).retries(Retries::default().max_retries(1)));
        let limit = per_hour("race", 40);
        let mut sim = Sim::seeded(seed, &clock);
        for index in 0..80 {
            sim.spawn(check(&stores[index % 4], limit.charge("one")));
        }
        let mut allowed = 0;
        for output in sim.run().into_iter().flatten() {
            match output {
                Ok(passed) => allowed += u64::from(passed),
                Err(error) => {
                    assert_eq!(error.code(), Code::ConflictExhausted);
                    exhausted += 1;
                }
            }
        }
        let spent = stored(&stores[0], &limit.charge("one"));
        assert_eq!(spent, allowed, "seed {seed}: a conflict charges nothing");
        assert!(spent <= 40, "seed {seed}");
    }
    println!("{exhausted} of 6,400 gave up");
    assert!(exhausted > 0, "the races were never hard enough");
}

#[test]
fn a_failing_read_fails_every_caller_and_may_be_tried_again() {
    let (clock, store, limit) = rivalled(3, 0);
    let mut sim = Sim::in_order(&clock);
    for _ in 0..10 {
        sim.spawn(check(&store, limit.charge("one")));
    }
    (0..10).for_each(|index| sim.poll(index));
    while sim.is_alive(0) {
        sim.step();
    }
    store.backend().failing_reads.store(1, Ordering::SeqCst);
    let outputs = sim.run();
    assert!(matches!(outputs[0], Some(Ok(true))));
    for output in outputs.into_iter().skip(1) {
        let error = output.unwrap().unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable);
        assert_eq!(error.message(), "the read failed");
        assert!(error.is_not_sent(), "a read charges nothing");
    }
    assert_eq!(stored(&store, &limit.charge("one")), 1);
}

#[test]
fn a_swap_without_an_answer_is_never_sent_again() {
    for (fault, spent) in [(Fault::Lost, 1), (Fault::AnswerLost, 10)] {
        let (clock, store, limit) = rivalled(3, 0);
        let mut sim = Sim::in_order(&clock);
        for _ in 0..10 {
            sim.spawn(check(&store, limit.charge("one")));
        }
        (0..10).for_each(|index| sim.poll(index));
        while sim.is_alive(0) {
            sim.step();
        }
        *store.backend().fault.lock().unwrap() = Some(fault);
        let outputs = sim.run();
        for output in outputs.into_iter().skip(1) {
            let error = output.unwrap().unwrap_err();
            assert_eq!(error.code(), Code::Timeout);
            assert!(!error.is_not_sent(), "the charge may be spent");
        }
        assert_eq!(Table::count(&store.backend().swaps_sent), 2, "{fault:?}: no swap is repeated");
        assert_eq!(stored(&store, &limit.charge("one")), spent, "{fault:?}");
    }
}

#[test]
fn a_request_id_of_unknown_fate_counts_until_it_expires() {
    for (fault, swaps) in [(Fault::Lost, 1), (Fault::AnswerLost, 1), (Fault::NotSent, 2)] {
        let clock = ManualClock::at(START);
        let store = cas(Table::multi_key(), &clock).max_request_ids(1);
        let limit = per_hour("ids", 10);
        let charges = [limit.charge("one")];
        let admit = |id| {
            let id = crate::charge::RequestId::new(id).unwrap();
            block_on(store.admit(&Admission::of(&charges).request_id(id), NOW))
        };
        *store.backend().fault.lock().unwrap() = Some(fault);
        assert_eq!(code(admit("a")), Some(Code::Timeout), "{fault:?}");
        let second = code(admit("b"));
        let is_refused = second == Some(Code::QueueFull);
        assert_eq!(is_refused, fault != Fault::NotSent, "{fault:?}: {second:?}");
        assert_eq!(Table::count(&store.backend().swaps_sent), swaps, "{fault:?}");
    }
}
