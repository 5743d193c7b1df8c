//! Waiting charges on one key share reads and swaps, and each gets its own evidence.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use super::*;
use crate::charge::RequestId;
use crate::clock::Clock as _;
use crate::cost::Cost;

#[test]
fn exactly_fifty_of_two_hundred_pass_at_limit_fifty() {
    for seed in 0..60 {
        for table in [Table::single_key(), Table::multi_key()] {
            let clock = ManualClock::at(START);
            let store = cas(table, &clock);
            let limit = per_hour("fifty", 50);
            let mut sim = Sim::seeded(seed, &clock);
            for _ in 0..200 {
                sim.spawn(check(&store, limit.charge("one")));
            }
            let outputs = sim.run();
            let allowed = outputs.iter().flatten().filter(|o| matches!(o, Ok(true)));
            assert_eq!(allowed.count(), 50, "seed {seed}");
            assert!(outputs.iter().flatten().all(Result::is_ok), "seed {seed}");
            assert_eq!(stored(&store, &limit.charge("one")), 50, "seed {seed}");
        }
    }
}

#[test]
fn two_processes_together_pass_exactly_fifty() {
    for seed in 0..60 {
        let clock = ManualClock::at(START);
        let table = Arc::new(Table::single_key());
        let stores = [0, 1, 2]
            .map(|_| cas(table.clone(), &clock).retries(Retries::default().max_retries(1_000)));
        let limit = per_hour("fifty", 50);
        let mut sim = Sim::seeded(seed, &clock);
        for index in 0..200 {
            sim.spawn(check(&stores[index % 3], limit.charge("one")));
        }
        let outputs = sim.run();
        let allowed = outputs.iter().flatten().filter(|o| matches!(o, Ok(true)));
        assert_eq!(allowed.count(), 50, "seed {seed}");
        assert_eq!(stored(&stores[0], &limit.charge("one")), 50, "seed {seed}");
    }
}

#[test]
fn a_hot_key_costs_far_fewer_swaps_than_admissions() {
    let clock = ManualClock::at(START);
    let store = cas(Table::single_key(), &clock);
    let limit = per_hour("hot", 10_000);
    let mut sim = Sim::seeded(11, &clock);
    for _ in 0..500 {
        sim.spawn(async {
            for _ in 0..4 {
                assert!(check(&store, limit.charge("one")).await.unwrap());
            }
        });
    }
    sim.run();
    let swaps = Table::count(&store.backend().swaps_sent);
    println!("2,000 admissions in {swaps} swaps");
    assert!(swaps < 40, "{swaps} swaps");
    assert_eq!(Table::count(&store.backend().reads), swaps);
    assert_eq!(stored(&store, &limit.charge("one")), 2_000);
}

#[test]
fn the_first_goes_alone_and_a_round_is_bounded() {
    let clock = ManualClock::at(START);
    let store = cas(Table::single_key(), &clock);
    let limit = per_hour("hot", 10_000);
    let mut sim = Sim::in_order(&clock);
    for _ in 0..2_501 {
        sim.spawn(check(&store, limit.charge("one")));
    }
    (0..2_501).for_each(|index| sim.poll(index));
    sim.run();
    // 1, then 1,000, 1,000 and 500.
    assert_eq!(Table::count(&store.backend().swaps_won), 4);
}

#[test]
fn each_waiter_gets_evidence_of_its_own() {
    let clock = ManualClock::at(START);
    let store = cas(Table::single_key(), &clock);
    let limit = per_hour("own", 100);
    let mut sim = Sim::seeded(3, &clock);
    for index in 0..40_u64 {
        let charge = limit.charge("one").cost(Cost::new(1 + index % 4).unwrap());
        let store = &store;
        sim.spawn(async move {
            let at = CallContext::at(START + index);
            let outcome = store.admit(&Admission::of(&[charge]), at).await.unwrap();
            assert_eq!(outcome.now.reading(), START + index);
            let spent = outcome.before[0].as_ref().map_or(0, |state| state.words[1]);
            let decision = decision(&charge, &outcome);
            (spent, charge.cost.get(), decision)
        });
    }
    let mut seen: Vec<_> = sim.run().into_iter().flatten().collect();
    seen.sort_by_key(|(spent, _, decision)| (*spent, !decision.is_allowed()));
    let mut total = 0;
    let mut remaining = BTreeSet::new();
    for (spent, cost, decision) in seen {
        if decision.is_allowed() {
            assert_eq!(spent, total, "each sees exactly what those before it charged");
            total += cost;
            assert_eq!(decision.remaining, 100 - total);
            assert!(remaining.insert(decision.remaining));
        }
    }
    assert_eq!(total, 100);
}

#[test]
fn no_caller_overtakes_an_admission_that_needs_a_round_of_its_own() {
    let clock = ManualClock::at(START);
    let store = cas(Table::multi_key(), &clock);
    let limit = per_hour("line", 100);
    let mut sim = Sim::in_order(&clock);
    for index in 0..9 {
        let (store, limit) = (&store, &limit);
        sim.spawn(async move {
            let id = format!("id{index}");
            let charges = [limit.charge("one")];
            let mut admission = Admission::of(&charges);
            if index % 3 == 2 {
                admission = admission.request_id(RequestId::new(&id).unwrap());
            }
            let outcome = store.admit(&admission, NOW).await.unwrap();
            outcome.before[0].as_ref().map_or(0, |state| state.words[1])
        });
    }
    (0..9).for_each(|index| sim.poll(index));
    let spent_before: Vec<u64> = sim.run().into_iter().flatten().collect();
    assert_eq!(spent_before, (0..9).collect::<Vec<u64>>());
}

#[test]
fn other_admissions_on_a_busy_key_take_turns_without_losing_races() {
    for seed in 0..20 {
        let clock = ManualClock::at(START);
        let store = cas(Table::multi_key(), &clock);
        let limits = [per_hour("route", 1_000), per_hour("user", 1_000)];
        let mut sim = Sim::seeded(seed, &clock);
        for index in 0..120 {
            let (store, limits) = (&store, &limits);
            sim.spawn(async move {
                let user = format!("u{}", index % 7);
                let route = limits[0].charge("r");
                let charges = [limits[1].charge(&user), route];
                let charges = if index % 2 == 0 { &charges[..] } else { &charges[1..] };
                store.admit(&Admission::of(charges), NOW).await.unwrap();
            });
        }
        assert_eq!(sim.run().iter().flatten().count(), 120);
        let table = store.backend();
        assert_eq!(stored(&store, &limits[0].charge("r")), 120, "seed {seed}");
        let (sent, won) = (&table.swaps_sent, &table.swaps_won);
        assert_eq!(Table::count(sent), Table::count(won), "seed {seed}: a race");
        assert_eq!(clock.now(), START, "seed {seed}: no caller backs off");
    }
}

#[test]
fn threads_share_an_adapter() {
    let store = Cas::new(Table::single_key());
    let limit = per_hour("threads", 500);
    let allowed: usize = thread::scope(|scope| {
        let workers: Vec<_> =
            (0..4).map(|_| scope.spawn(|| parked_sum(&store, &limit, 250))).collect();
        workers.into_iter().map(|w| w.join().unwrap()).sum()
    });
    assert_eq!(allowed, 500);
    assert_eq!(stored(&store, &limit.charge("one")), 500);
}

/// Runs ten checks at a time on this thread, parked while it has nothing to do.
fn parked_sum(store: &Cas<Table>, limit: &Limit, checks: usize) -> usize {
    struct Unpark(thread::Thread, AtomicBool);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.1.store(true, Ordering::SeqCst);
            self.0.unpark();
        }
    }
    let unpark = Arc::new(Unpark(thread::current(), AtomicBool::new(false)));
    let waker = Arc::clone(&unpark).into();
    let mut context = core::task::Context::from_waker(&waker);
    let mut allowed = 0;
    for _ in 0..checks / 10 {
        let mut futures: Vec<_> =
            (0..10).map(|_| Box::pin(check(store, limit.charge("one")))).collect();
        while !futures.is_empty() {
            unpark.1.store(false, Ordering::SeqCst);
            futures.retain_mut(|future| match future.as_mut().poll(&mut context) {
                core::task::Poll::Ready(result) => {
                    allowed += usize::from(result.unwrap());
                    false
                }
                core::task::Poll::Pending => true,
            });
            // An old unpark may end the first wait at once, and nothing but a wake-up the others.
            let mut waits = 0;
            while !futures.is_empty() && !unpark.1.load(Ordering::SeqCst) {
                assert!(waits < 4, "this thread was not woken");
                thread::park_timeout(Duration::from_secs(5));
                waits += 1;
            }
        }
    }
    allowed
}
