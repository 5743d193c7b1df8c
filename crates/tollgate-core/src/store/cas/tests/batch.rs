//! Batches: shared round trips, order on a key, refusals alone.

use super::*;
use crate::charge::RequestId;
use crate::cost::Cost;
use crate::store::cas::VersionedCapability;

fn passed(charges: &[[Charge<'_>; 1]], outcomes: &[Result<Evidence>]) -> Vec<bool> {
    let pairs = charges.iter().zip(outcomes);
    pairs
        .map(|([charge], outcome)| decision(charge, outcome.as_ref().unwrap()).is_allowed())
        .collect()
}

#[test]
fn a_batch_keeps_the_order_on_each_key() {
    for table in [Table::multi_key(), Table::single_key()] {
        let clock = ManualClock::at(START);
        let store = cas(table, &clock);
        let limit = per_hour("batch", 5);
        let cost = |units| Cost::new(units).unwrap();
        let charges: Vec<[Charge<'_>; 1]> = [("a", 3), ("b", 5), ("a", 3), ("a", 2), ("b", 1)]
            .map(|(subject, units)| [limit.charge(subject).cost(cost(units))])
            .into();
        let batch: Vec<_> = charges.iter().map(|c| Admission::of(c)).collect();
        let outcomes = block_on(admit_many(&store, &batch, NOW));
        let expected = [true, true, false, true, false];
        assert_eq!(passed(&charges, &outcomes), expected);
        let expected_swaps = if store.embeds_records() { 2 } else { 1 };
        assert_eq!(Table::count(&store.backend().swaps_sent), expected_swaps);
        assert_eq!(Table::count(&store.backend().reads), expected_swaps);
        assert_eq!(stored(&store, &limit.charge("a")), 5);
        assert_eq!(stored(&store, &limit.charge("b")), 5);
    }
}

#[test]
fn a_batch_shares_no_swap_where_that_costs_more() {
    let clock = ManualClock::at(START);
    let apart = VersionedCapability::multi_key(100).without_joint_batches();
    let store = cas(Table::new(apart), &clock);
    let limit = per_hour("batch", 5);
    let [a, b, c] = ["a", "b", "c"].map(|subject| limit.charge(subject));
    let (alone, pair) = ([[a], [b], [c]], [a, b]);
    let batch = [
        Admission::of(&alone[0]),
        Admission::of(&alone[1]),
        Admission::of(&alone[0]),
        Admission::of(&pair),
        Admission::of(&alone[0]),
        Admission::of(&alone[2]),
    ];
    let outcomes = block_on(admit_many(&store, &batch, NOW));
    // Each sees what those before it in the batch have charged to its first key.
    let counted = |outcome: &Result<Evidence>| {
        outcome.as_ref().unwrap().before[0].as_ref().map_or(0, |state| state.words[1])
    };
    let seen: Vec<u64> = outcomes.iter().map(counted).collect();
    assert_eq!(seen, [0, 0, 1, 2, 3, 0]);
    // Twice a; b; both, with the a behind them; c.
    assert_eq!(Table::count(&store.backend().swaps_sent), 4);
    assert_eq!([a, b, c].map(|charge| stored(&store, &charge)), [4, 2, 1]);
}

#[test]
fn a_large_batch_is_split_by_what_a_swap_can_hold() {
    for keys_per_swap in [1, 2, 7, 100] {
        let clock = ManualClock::at(START);
        let table = Table::new(VersionedCapability::multi_key(keys_per_swap));
        let store = cas(table, &clock);
        let limit = per_hour("batch", 5);
        let subjects: Vec<String> = (0..300).map(|n| format!("s{}", n % 100)).collect();
        let charges: Vec<_> = subjects.iter().map(|s| [limit.charge(s)]).collect();
        let batch: Vec<_> = charges.iter().map(|c| Admission::of(c)).collect();
        let outcomes = block_on(admit_many(&store, &batch, NOW));
        assert!(passed(&charges, &outcomes).into_iter().all(|passed| passed));
        for subject in &subjects {
            assert_eq!(stored(&store, &limit.charge(subject)), 3);
        }
        let swaps = Table::count(&store.backend().swaps_sent);
        println!("{keys_per_swap} keys per swap: {swaps} swaps");
        assert!(swaps <= 300_usize.div_ceil(keys_per_swap as usize).min(150));
    }
}

#[test]
fn records_of_a_batch_take_room_in_a_swap_too() {
    let store = cas(Table::new(VersionedCapability::multi_key(4)), &ManualClock::at(START));
    let limit = per_hour("batch", 5);
    let charges = ["a", "b", "c", "d"].map(|subject| [limit.charge(subject)]);
    let id = RequestId::new("id").unwrap();
    let batch: Vec<_> = charges.iter().map(|c| Admission::of(c).request_id(id)).collect();
    let outcomes = block_on(admit_many(&store, &batch, NOW));
    assert!(passed(&charges, &outcomes).into_iter().all(|passed| passed));
    // Two keys and their two records in each.
    assert_eq!(Table::count(&store.backend().swaps_sent), 2);
}

#[test]
fn keys_that_a_batch_repeats_take_no_more_room_in_a_swap() {
    let store = cas(Table::new(VersionedCapability::multi_key(2)), &ManualClock::at(START));
    let limit = per_hour("batch", 5);
    let charges = ["a", "b", "a", "b", "c", "a"].map(|subject| [limit.charge(subject)]);
    let batch: Vec<_> = charges.iter().map(|c| Admission::of(c)).collect();
    let outcomes = block_on(admit_many(&store, &batch, NOW));
    assert!(passed(&charges, &outcomes).into_iter().all(|passed| passed));
    // The first four, then two.
    assert_eq!(Table::count(&store.backend().swaps_sent), 2);
}

#[test]
fn what_a_batch_refuses_does_not_harm_the_rest() {
    let clock = ManualClock::at(START);
    let store = cas(Table::multi_key(), &clock);
    let limit = per_hour("batch", 5);
    store.backend().overwrite(&limit.key("bad").to_text(), "nonsense");
    let charges = ["good", "bad", "good"].map(|subject| [limit.charge(subject)]);
    let mut batch: Vec<_> = charges.iter().map(|c| Admission::of(c)).collect();
    batch.push(Admission::of(&[]));
    let outcomes = block_on(admit_many(&store, &batch, NOW));
    let codes: Vec<_> = outcomes.into_iter().map(code).collect();
    let corrupt = Some(Code::CorruptState);
    assert_eq!(codes, [None, corrupt, None, Some(Code::InvalidRequest)]);
    assert_eq!(stored(&store, &limit.charge("good")), 2);
}

#[test]
fn one_id_twice_in_a_batch_is_charged_once() {
    for table in [Table::multi_key(), Table::single_key()] {
        let clock = ManualClock::at(START);
        let store = cas(table, &clock);
        let limit = per_hour("batch", 5);
        let charges = [limit.charge("one")];
        let admission = Admission::of(&charges).request_id(RequestId::new("a").unwrap());
        let outcomes = block_on(admit_many(&store, &[admission, admission], NOW));
        let replays: Vec<_> =
            outcomes.iter().map(|outcome| outcome.as_ref().unwrap().replayed.is_some()).collect();
        assert_eq!(replays, [false, true]);
        assert_eq!(stored(&store, &charges[0]), 1);
    }
}

#[test]
fn an_empty_batch_has_no_outcomes() {
    let store = cas(Table::multi_key(), &ManualClock::at(START));
    assert!(block_on(admit_many(&store, &[], NOW)).is_empty());
    assert_eq!(Table::count(&store.backend().reads), 0);
}

#[test]
fn batches_and_single_checks_side_by_side_pass_exactly_the_limit() {
    for seed in 0..40 {
        let clock = ManualClock::at(START);
        let table = std::sync::Arc::new(Table::multi_key());
        let stores = [0, 1]
            .map(|_| cas(table.clone(), &clock).retries(Retries::default().max_retries(1_000)));
        let limits = [per_hour("a", 50), per_hour("b", 1_000)];
        let mut sim = Sim::seeded(seed, &clock);
        for index in 0..20 {
            let (store, limits) = (&stores[index % 2], &limits);
            sim.spawn(async move {
                let hot = limits[0].charge("one");
                let charges = [[hot], [limits[1].charge("x")], [hot], [hot]];
                let batch: Vec<_> = charges.iter().map(|c| Admission::of(c)).collect();
                let outcomes = admit_many(store, &batch, NOW).await;
                let batch = passed(&charges, &outcomes);
                let alone = check(store, hot).await.unwrap();
                usize::from(alone) + [0, 2, 3].map(|i| usize::from(batch[i])).iter().sum::<usize>()
            });
        }
        let allowed: usize = sim.run().into_iter().flatten().sum();
        assert_eq!(allowed, 50, "seed {seed}");
        assert_eq!(stored(&stores[0], &limits[0].charge("one")), 50);
        assert_eq!(stored(&stores[0], &limits[1].charge("x")), 20);
    }
}
