//! Futures that are dropped: at every point, and at random ones.

use core::sync::atomic::Ordering;

use super::*;
use crate::charge::RequestId;

/// What is known after every caller has completed or was dropped.
struct Count {
    acknowledged: u64,
    /// Charges that may or may not be spent.
    unknown: u64,
}

fn count(outputs: Vec<Option<Result<bool>>>) -> Count {
    let mut count = Count { acknowledged: 0, unknown: 0 };
    for output in outputs {
        match output {
            Some(Ok(true)) => count.acknowledged += 1,
            Some(Ok(false)) => {}
            Some(Err(error)) => panic!("a cancelled caller concerns no other: {error}"),
            None => count.unknown += 1,
        }
    }
    count
}

/// A run in which a caller is dropped.
#[derive(Clone, Copy, Debug)]
struct Case {
    callers: usize,
    victim: usize,
    /// Dropped after this many turns of the scheduler.
    turns: usize,
    /// This many swaps lose their race first, so that leaders back off.
    rivals: usize,
    seed: Option<u64>,
}

/// Whether a caller was still alive when the time of the victim came.
fn drop_one(case: Case) -> bool {
    let clock = ManualClock::at(START);
    let store = cas(Table::multi_key(), &clock);
    store.backend().rivals.store(case.rivals, Ordering::SeqCst);
    let limit = per_hour("drops", 1_000);
    let mut sim = match case.seed {
        Some(seed) => Sim::seeded(seed, &clock),
        None => Sim::in_order(&clock),
    };
    for _ in 0..case.callers {
        sim.spawn(check(&store, limit.charge("one")));
    }
    // All callers are queued before the first round is decided.
    (0..case.callers).for_each(|index| sim.poll(index));
    for _ in 0..case.turns {
        sim.turn();
    }
    let is_running = !sim.alive().is_empty();
    let was_alive = sim.is_alive(case.victim);
    sim.drop_task(case.victim);
    let outputs = sim.run();
    assert_eq!(store.queues.busy(), 0, "{case:?}: a key is left busy");
    let done = outputs.iter().flatten().count();
    let others = outputs.len() - usize::from(was_alive);
    assert_eq!(done, others, "{case:?}: a caller got no answer");
    let Count { acknowledged, unknown } = count(outputs);
    let spent = stored(&store, &limit.charge("one"));
    assert!(acknowledged <= spent, "{case:?}: a charge was lost");
    let most = acknowledged + unknown;
    assert!(spent <= most, "{case:?}: a charge was made twice");
    is_running
}

/// Drops every caller after every turn of one schedule: how many points there were.
fn drop_everywhere(callers: usize, rivals: usize, seed: Option<u64>) -> usize {
    let mut points = 0;
    for victim in 0..callers {
        let mut case = Case { callers, victim, turns: 0, rivals, seed };
        while drop_one(case) {
            case.turns += 1;
            points += 1;
        }
    }
    points
}

#[test]
fn dropping_any_caller_at_any_point_never_hangs_loses_or_double_charges() {
    let mut points = 0;
    for callers in [1, 2, 3, 6] {
        for rivals in [0, 1, 2] {
            points += drop_everywhere(callers, rivals, None);
        }
    }
    println!("{points} points");
    assert!(points > 300);
}

#[test]
fn dropping_any_caller_at_any_point_is_safe_in_random_schedules() {
    let points: usize = (0..40).map(|seed| drop_everywhere(5, seed % 3, Some(seed as u64))).sum();
    println!("{points} points, seeds 0..40");
    assert!(points > 2_000);
}

#[test]
fn a_leader_that_is_dropped_before_the_swap_hands_its_followers_over() {
    let clock = ManualClock::at(START);
    let store = cas(Table::multi_key(), &clock);
    let limit = per_hour("drops", 1_000);
    let mut sim = Sim::in_order(&clock);
    for _ in 0..10 {
        sim.spawn(check(&store, limit.charge("one")));
    }
    (0..10).for_each(|index| sim.poll(index));
    // The first still reads: nothing was sent.
    assert_eq!(Table::count(&store.backend().swaps_sent), 0);
    sim.drop_task(0);
    let outputs = sim.run();
    let allowed = outputs.iter().flatten().filter(|o| matches!(o, Ok(true)));
    assert_eq!(allowed.count(), 9);
    assert_eq!(stored(&store, &limit.charge("one")), 9);
    // The second leads all others at once.
    assert_eq!(Table::count(&store.backend().swaps_won), 1);
}

#[test]
fn a_round_whose_leader_is_cancelled_after_the_swap_was_sent_is_driven_on() {
    for applied in [false, true] {
        let clock = ManualClock::at(START);
        let store = cas(Table::multi_key(), &clock);
        let limit = per_hour("drops", 1_000);
        let mut sim = Sim::in_order(&clock);
        for _ in 0..10 {
            sim.spawn(check(&store, limit.charge("one")));
        }
        (0..10).for_each(|index| sim.poll(index));
        while sim.is_alive(0) {
            sim.step();
        }
        let table = store.backend();
        // The second leads the other eight: stopped before or after its swap arrives.
        let wanted = |table: &Table| {
            if applied {
                Table::count(&table.swaps_won) == 2
            } else {
                Table::count(&table.swaps_sent) == 2
            }
        };
        while !wanted(table) {
            sim.step();
        }
        sim.drop_task(1);
        let late = sim.spawn(check(&store, limit.charge("one")));
        let outputs = sim.run();
        let allowed = outputs.iter().flatten().filter(|o| matches!(o, Ok(true))).count();
        assert_eq!(allowed, 10, "applied: {applied}");
        assert!(matches!(outputs[late], Some(Ok(true))));
        // The swap was sent with the charge of the cancelled one.
        assert_eq!(stored(&store, &limit.charge("one")), 11);
        assert_eq!(Table::count(&store.backend().swaps_sent), 3);
    }
}

#[test]
fn a_follower_that_is_dropped_before_its_round_is_not_charged() {
    let clock = ManualClock::at(START);
    let store = cas(Table::single_key(), &clock);
    let limit = per_hour("drops", 1_000);
    let mut sim = Sim::in_order(&clock);
    for _ in 0..10 {
        sim.spawn(check(&store, limit.charge("one")));
    }
    (0..10).for_each(|index| sim.poll(index));
    [3, 5, 9].into_iter().for_each(|index| sim.drop_task(index));
    let outputs = sim.run();
    assert_eq!(outputs.iter().flatten().count(), 7);
    assert_eq!(stored(&store, &limit.charge("one")), 7);
}

#[test]
fn a_follower_that_is_dropped_while_its_leader_reads_is_not_charged() {
    let clock = ManualClock::at(START);
    let store = cas(Table::single_key(), &clock);
    let limit = per_hour("drops", 1_000);
    let mut sim = Sim::in_order(&clock);
    for _ in 0..10 {
        sim.spawn(check(&store, limit.charge("one")));
    }
    (0..10).for_each(|index| sim.poll(index));
    // The second round has begun: its leader reads for nine.
    while Table::count(&store.backend().reads) < 2 {
        sim.step();
    }
    sim.drop_task(5);
    let outputs = sim.run();
    assert_eq!(outputs.iter().flatten().count(), 9);
    assert_eq!(stored(&store, &limit.charge("one")), 9);
    assert_eq!(Table::count(&store.backend().swaps_won), 2);
}

#[test]
fn random_drops_with_several_keys_and_rivals_keep_the_books() {
    for seed in 0..150 {
        let clock = ManualClock::at(START);
        let table = std::sync::Arc::new(Table::multi_key());
        let stores = [0, 1]
            .map(|_| cas(table.clone(), &clock).retries(Retries::default().max_retries(1_000)));
        let limits = [per_hour("first", 30), per_hour("second", 1_000)];
        let mut random = Random::seeded(seed);
        let mut sim = Sim::seeded(seed, &clock);
        let mut kinds = Vec::new();
        for _ in 0..60 {
            let kind = random.below(3);
            kinds.push(kind);
            let (store, limits) = (&stores[random.below(2)], &limits);
            sim.spawn(async move {
                let pair = [limits[1].charge("x"), limits[0].charge("x")];
                let charges = if kind == 0 { &pair[..] } else { &pair[1..] };
                let outcome = store.admit(&Admission::of(charges), NOW).await?;
                Ok(decisions(charges, &outcome).iter().all(Decision::is_allowed))
            });
        }
        while sim.turn() {
            if random.below(25) == 0
                && let Some(&victim) = sim.alive().first()
            {
                sim.drop_task(victim + random.below(60 - victim));
            }
            if random.below(40) == 0 {
                table.rivals.store(1, Ordering::SeqCst);
            }
        }
        let outputs = sim.into_outputs();
        let pairs = outputs
            .iter()
            .zip(&kinds)
            .filter(|(o, kind)| **kind == 0 && matches!(o, Some(Ok(true))));
        let pairs = pairs.count() as u64;
        let lost_pairs = outputs.iter().zip(&kinds);
        let lost_pairs = lost_pairs.filter(|(o, kind)| **kind == 0 && o.is_none());
        let lost_pairs = lost_pairs.count() as u64;
        let Count { acknowledged, unknown } = count(outputs);
        let spent = stored(&stores[0], &limits[0].charge("x"));
        let paired = stored(&stores[0], &limits[1].charge("x"));
        assert!(spent <= 30, "seed {seed}: over-admitted");
        assert!(acknowledged <= spent && spent <= acknowledged + unknown, "seed {seed}");
        assert!(pairs <= paired && paired <= pairs + lost_pairs, "seed {seed}");
        assert!(stores.iter().all(|store| store.queues.busy() == 0), "seed {seed}");
    }
}

#[test]
fn ids_sent_again_after_drops_are_charged_at_most_once() {
    for seed in 0..100 {
        let table = if seed % 2 == 0 { Table::multi_key() } else { Table::single_key() };
        let clock = ManualClock::at(START);
        let table = std::sync::Arc::new(table);
        let stores = [0, 1]
            .map(|_| cas(table.clone(), &clock).retries(Retries::default().max_retries(1_000)));
        let limit = per_hour("ids", 1_000);
        let mut random = Random::seeded(seed);
        let mut sim = Sim::seeded(seed, &clock);
        for index in 0..60 {
            let (store, limit) = (&stores[random.below(2)], &limit);
            sim.spawn(async move {
                let id = format!("id{}", index % 12);
                let charges = [limit.charge("one")];
                let admission = Admission::of(&charges).request_id(RequestId::new(&id)?);
                store.admit(&admission, NOW).await.map(|_| true)
            });
        }
        while sim.turn() {
            let alive = sim.alive();
            if random.below(12) == 0 && !alive.is_empty() {
                sim.drop_task(alive[random.below(alive.len())]);
            }
        }
        let outputs = sim.into_outputs();
        let rows = table.rows().clone();
        let recorded: usize = rows.values().map(|row| row.text.lines().count() - 1).sum();
        let answered = (0..12).filter(|id| {
            let mut sent = outputs.iter().skip(*id).step_by(12);
            sent.any(|output| matches!(output, Some(Ok(_))))
        });
        let (answered, spent) = (answered.count(), stored(&stores[0], &limit.charge("one")));
        assert_eq!(spent, recorded as u64, "seed {seed}: one charge per id");
        assert!(answered <= recorded && recorded <= 12, "seed {seed}");
        assert!(stores.iter().all(|store| store.queues.busy() == 0), "seed {seed}");
    }
}

#[test]
fn closing_the_store_closes_the_backend() {
    let store = cas(std::sync::Arc::new(Table::multi_key()), &ManualClock::at(START));
    block_on(store.close());
    assert_eq!(Table::count(&store.backend().closed), 1);
}
