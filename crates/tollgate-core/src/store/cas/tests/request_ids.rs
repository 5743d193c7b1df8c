//! Request ids: charged once, bound to their payload, kept until they expire.

use super::*;
use crate::charge::RequestId;
use crate::cost::Cost;
use crate::error::Error;
use crate::store::cas::VersionedCapability;
use crate::store::{Bounds, WhenIdsFull};

/// Both homes of a record: next to its key, and inside the key's value.
fn both(test: impl Fn(&ManualClock, &Cas<Table>)) {
    for table in [Table::multi_key(), Table::single_key()] {
        let clock = ManualClock::at(START);
        test(&clock, &cas(table, &clock));
    }
}

fn admit(store: &Cas<Table>, charge: Charge<'_>, id: &str, at: Micros) -> Result<Evidence> {
    let once = RequestId::new(id).unwrap();
    let charges = [charge];
    block_on(store.admit(&Admission::of(&charges).request_id(once), CallContext::at(at)))
}

#[test]
fn a_replay_returns_the_first_evidence_and_charges_nothing() {
    both(|_, store| {
        let limit = per_hour("ids", 10);
        let charge = limit.charge("one").cost(Cost::new(3).unwrap());
        assert!(block_on(check(store, limit.charge("one"))).unwrap());
        let first = admit(store, charge, "a", START + 5).unwrap();
        assert_eq!(first.replayed, None);
        assert!(block_on(check(store, limit.charge("one"))).unwrap());
        let swaps = Table::count(&store.backend().swaps_sent);
        let again = admit(store, charge, "a", START + 77).unwrap();
        assert_eq!(again.replayed, Some(vec![limit.rule().quota_id()]));
        assert_eq!((again.now, &again.before), (first.now, &first.before));
        assert_eq!(Table::count(&store.backend().swaps_sent), swaps);
        assert_eq!(stored(store, &charge), 5);
    });
}

#[test]
fn another_cost_is_a_conflict_and_another_key_another_request() {
    both(|_, store| {
        let limit = per_hour("ids", 10);
        let two = Cost::new(2).unwrap();
        admit(store, limit.charge("one"), "a", START).unwrap();
        let conflict = admit(store, limit.charge("one").cost(two), "a", START);
        assert_eq!(code(conflict), Some(Code::IdempotencyConflict));
        let other = admit(store, limit.charge("two").cost(two), "a", START).unwrap();
        assert_eq!(other.replayed, None);
        let elsewhere = per_hour("elsewhere", 10);
        let other = admit(store, elsewhere.charge("one").cost(two), "a", START).unwrap();
        assert_eq!(other.replayed, None);
        assert_eq!(stored(store, &limit.charge("one")), 1);
        assert_eq!(stored(store, &limit.charge("two")), 2);
    });
}

#[test]
fn a_value_may_be_exactly_as_long_as_the_store_keeps() {
    let bounded = |bytes: usize| {
        let capability = VersionedCapability::single_key();
        let capability = capability.with_max_state_bytes(u32::try_from(bytes).unwrap());
        cas(Table::new(capability), &ManualClock::at(START))
    };
    let limit = per_hour("ids", 10);
    let free = cas(Table::single_key(), &ManualClock::at(START));
    admit(&free, limit.charge("one"), "a", START).unwrap();
    let bytes = free.backend().rows()[&limit.key("one").to_text()].text.len();
    admit(&bounded(bytes), limit.charge("one"), "a", START).unwrap();
    let refused = admit(&bounded(bytes - 1), limit.charge("one"), "a", START);
    assert_eq!(refused.unwrap_err().field(), Some("request_id"));
}

#[test]
fn ids_that_look_alike_are_apart() {
    both(|_, store| {
        let limit = per_hour("ids", 100);
        let ids = ["a", "%61", "a:once:b", "b\"", "b\\", "b%22", "b\n[]", "é", "{a}"];
        for id in ids {
            let outcome = admit(store, limit.charge("a:once:b"), id, START).unwrap();
            assert_eq!(outcome.replayed, None, "{id:?}");
        }
        for id in ids {
            let outcome = admit(store, limit.charge("a:once:b"), id, START).unwrap();
            assert!(outcome.replayed.is_some(), "{id:?}");
        }
        assert_eq!(stored(store, &limit.charge("a:once:b")), 9);
    });
}

#[test]
fn a_denied_id_is_decided_anew_and_stores_nothing() {
    both(|_, store| {
        let limit = per_hour("ids", 1);
        let charge = limit.charge("one");
        assert!(block_on(check(store, charge)).unwrap());
        let rows = store.backend().rows().clone();
        let denied = admit(store, charge, "a", START).unwrap();
        assert!(!decision(&charge, &denied).is_allowed());
        assert_eq!(*store.backend().rows(), rows, "a denial writes nothing");
        let later = admit(store, charge, "a", START + HOUR).unwrap();
        assert_eq!(later.replayed, None);
        assert!(decision(&charge, &later).is_allowed());
    });
}

#[test]
fn a_record_expires_and_its_id_is_charged_again() {
    both(|_, store| {
        let limit = per_hour("ids", 10);
        let charge = limit.charge("one");
        admit(store, charge, "a", START).unwrap();
        let last = START + RequestId::DEFAULT_KEEP - 1;
        assert!(admit(store, charge, "a", last).unwrap().replayed.is_some());
        assert!(admit(store, charge, "a", last + 1).unwrap().replayed.is_none());
        assert!(admit(store, charge, "a", last + 2).unwrap().replayed.is_some());
        assert_eq!(stored(store, &charge), 2);
        let rows = store.backend().rows().clone();
        let lines: usize = rows.values().map(|row| row.text.lines().count() - 1).sum();
        assert_eq!(lines, 1, "the expired record is gone: {rows:?}");
    });
}

#[test]
fn a_record_outlives_a_state_that_is_fresh_sooner() {
    both(|_, store| {
        let quota = Quota::per_second(1_000);
        let window = FixedWindow::new(quota, Anchor::Epoch).unwrap();
        let limit = Limit::new("short", window).unwrap();
        admit(store, limit.charge("one"), "a", START).unwrap();
        store.backend().sweep(START + RequestId::DEFAULT_KEEP);
        let again = admit(store, limit.charge("one"), "a", START + HOUR / 60);
        assert!(again.unwrap().replayed.is_some());
    });
}

#[test]
fn concurrent_duplicates_charge_once() {
    for seed in 0..60 {
        for table in [Table::multi_key(), Table::single_key()] {
            let clock = ManualClock::at(START);
            let table = std::sync::Arc::new(table);
            let stores = [0, 1]
                .map(|_| cas(table.clone(), &clock).retries(Retries::default().max_retries(1_000)));
            let limit = per_hour("ids", 100);
            let mut sim = Sim::seeded(seed, &clock);
            for index in 0..30 {
                let (store, limit) = (&stores[index % 2], &limit);
                sim.spawn(async move {
                    let id = format!("id{}", index % 3);
                    let charges = [limit.charge("one")];
                    let admission = Admission::of(&charges).request_id(RequestId::new(&id)?);
                    let outcome = store.admit(&admission, NOW).await?;
                    check(store, limit.charge("one")).await?;
                    Ok::<bool, Error>(outcome.replayed.is_none())
                });
            }
            let outputs = sim.run();
            let firsts = outputs.iter().flatten().filter(|o| matches!(o, Ok(true)));
            assert_eq!(firsts.count(), 3, "seed {seed}");
            let spent = stored(&stores[0], &limit.charge("one"));
            assert_eq!(spent, 3 + 30, "seed {seed}");
        }
    }
}

#[test]
fn several_charges_share_one_id_and_replay_together() {
    let clock = ManualClock::at(START);
    let store = cas(Table::multi_key(), &clock);
    let limits = [per_hour("first", 10), per_hour("second", 20)];
    let charges = [limits[0].charge("one"), limits[1].charge("one"), limits[0].charge("one")];
    let admission = Admission::of(&charges).request_id(RequestId::new("a").unwrap());
    let first = block_on(store.admit(&admission, NOW)).unwrap();
    let again = block_on(store.admit(&admission, NOW)).unwrap();
    assert_eq!(again.before, first.before);
    let quota_ids = charges.iter().map(|charge| charge.rule().quota_id()).collect();
    assert_eq!(again.replayed, Some(quota_ids));
    let fewer = Admission::of(&charges[..2]).request_id(RequestId::new("a").unwrap());
    let conflict = block_on(store.admit(&fewer, NOW));
    assert_eq!(code(conflict), Some(Code::IdempotencyConflict));
    assert_eq!(stored(&store, &charges[0]), 2);
}

#[test]
fn a_key_with_its_own_records_holds_a_bounded_number() {
    let clock = ManualClock::at(START);
    let store = cas(Table::single_key(), &clock).max_records(3);
    let refuse = Bounds::new().when_ids_full(WhenIdsFull::Refuse);
    let limit = per_hour("ids", 5).bounded(refuse);
    for id in ["a", "b", "c"] {
        admit(&store, limit.charge("one"), id, START).unwrap();
    }
    let full = admit(&store, limit.charge("one"), "d", START);
    assert_eq!(code(full), Some(Code::QueueFull));
    assert_eq!(stored(&store, &limit.charge("one")), 3);
    assert!(admit(&store, limit.charge("one"), "a", START).is_ok());
    // Without an id it still passes, and the records stay.
    assert!(block_on(check(&store, limit.charge("one"))).unwrap());
    let replay = admit(&store, limit.charge("one"), "b", START).unwrap();
    assert!(replay.replayed.is_some());
    let later = START + RequestId::DEFAULT_KEEP;
    assert!(admit(&store, limit.charge("one"), "d", later).is_ok());
}

/// A settlement that is forgotten could be made again.
#[test]
fn a_key_with_its_own_records_forgets_the_oldest_of_a_charge() {
    let store = cas(Table::single_key(), &ManualClock::at(START)).max_records(3);
    let limit = per_hour("ids", 100);
    let charge = limit.charge("one");
    admit(&store, charge, "charge", START).unwrap();
    let refund = charge.refund(crate::charge::Receipt::Newest);
    assert!(admit(&store, refund, "refund", START).unwrap().replayed.is_none());
    for id in 0..20 {
        let id = id.to_string();
        assert!(admit(&store, charge, &id, START).unwrap().replayed.is_none(), "{id}");
        assert!(admit(&store, charge, &id, START).unwrap().replayed.is_some(), "{id}");
    }
    assert!(admit(&store, refund, "refund", START).unwrap().replayed.is_some());
    assert!(admit(&store, charge, "18", START).unwrap().replayed.is_some());
    assert!(admit(&store, charge, "0", START).unwrap().replayed.is_none(), "it is charged again");
    assert_eq!(stored(&store, &charge), 21);
}

#[test]
fn records_that_outgrow_the_backend_are_refused() {
    let capability = VersionedCapability::single_key().with_max_state_bytes(200);
    let store = cas(Table::new(capability), &ManualClock::at(START));
    let refuse = Bounds::new().when_ids_full(WhenIdsFull::Refuse);
    let limit = per_hour("ids", 50).bounded(refuse);
    let ids = ["a", "b", "c", "d", "e"].map(|id| id.repeat(20));
    let codes = ids.map(|id| code(admit(&store, limit.charge("one"), &id, START)));
    assert_eq!(codes[0], None);
    assert_eq!(codes[4], Some(Code::QueueFull));
    let rows = store.backend().rows().clone();
    assert!(rows.values().all(|row| row.text.len() <= 200), "{rows:?}");
    let capability = VersionedCapability::single_key().with_max_state_bytes(90);
    let tiny = cas(Table::new(capability), &ManualClock::at(START));
    let never = admit(&tiny, limit.charge("one"), &"x".repeat(64), START);
    assert_eq!(code(never), Some(Code::Unsupported));
    assert_eq!(stored(&tiny, &limit.charge("one")), 0);
}

#[test]
fn a_reset_keeps_the_ids() {
    both(|_, store| {
        let limit = per_hour("ids", 5);
        let charge = limit.charge("one");
        admit(store, charge, "a", START).unwrap();
        block_on(store.reset(charge.key(), NOW)).unwrap();
        assert_eq!(stored(store, &charge), 0);
        assert!(admit(store, charge, "a", START).unwrap().replayed.is_some());
        assert!(admit(store, charge, "b", START).unwrap().replayed.is_none());
        assert_eq!(stored(store, &charge), 1);
    });
}

#[test]
fn a_record_that_cannot_be_read_is_corrupt_not_absent() {
    both(|_, store| {
        let limit = per_hour("ids", 5);
        let charge = limit.charge("one");
        admit(store, charge, "a", START).unwrap();
        let rows = store.backend().rows().clone();
        for (key, row) in rows {
            if row.text.contains('\n') {
                store.backend().overwrite(&key, &row.text.replace("[\"a\"", "[a"));
            }
        }
        let again = admit(store, charge, "a", START);
        assert_eq!(code(again), Some(Code::CorruptState));
    });
}

#[test]
fn a_record_of_its_own_counts_as_a_key_of_the_swap() {
    let clock = ManualClock::at(START);
    let store = cas(Table::new(VersionedCapability::multi_key(2)), &clock);
    let (a, b) = (per_hour("a", 10), per_hour("b", 10));
    let both = [a.charge("one"), b.charge("one")];
    assert!(block_on(store.admit(&Admission::of(&both), NOW)).is_ok());
    assert!(admit(&store, a.charge("one"), "id", START).is_ok());
    let with_id = Admission::of(&both).request_id(RequestId::new("id").unwrap());
    assert_eq!(code(block_on(store.admit(&with_id, NOW))), Some(Code::Unsupported));
    assert_eq!((stored(&store, &both[0]), stored(&store, &both[1])), (2, 1));
}

/// The record expires within minutes, the state within the hour: the backend keeps the longer of
/// the two, though only the record is new.
#[test]
fn a_record_beside_an_unchanged_state_does_not_shorten_its_life() {
    let clock = ManualClock::at(START);
    let store = cas(Table::single_key(), &clock);
    let limit = per_hour("ids", 10);
    assert!(block_on(check(&store, limit.charge("one"))).unwrap());
    let nothing = [limit.charge("one").refund(crate::charge::Receipt::Until(START))];
    let id = RequestId::new("id").unwrap().keep_for(minutes(1));
    block_on(store.admit(&Admission::of(&nothing).request_id(id), NOW)).unwrap();
    let rows = store.backend().rows();
    let kept: Vec<Micros> = rows.values().map(|row| row.keep_until).collect();
    assert!(kept.len() == 1 && kept[0] >= START + HOUR, "{kept:?}");
    drop(rows);
    assert_eq!(stored(&store, &limit.charge("one")), 1);
}

#[test]
fn a_bound_of_a_policy_is_refused() {
    both(|_, store| {
        let limit = per_hour("ids", 10).bounded(Bounds::new().max_request_ids(5));
        let refused = admit(store, limit.charge("one"), "a", START).unwrap_err();
        let field = Some("max_request_ids");
        assert_eq!((refused.code(), refused.field()), (Code::Unsupported, field));
        let free = per_hour("free", 10);
        let pair = [free.charge("one"), limit.charge("one")];
        let id = RequestId::new("b").unwrap();
        let refused = block_on(store.admit(&Admission::of(&pair).request_id(id), NOW));
        assert_eq!(code(refused), Some(Code::Unsupported));
        assert_eq!(stored(store, &free.charge("one")), 0);
        assert!(block_on(check(store, limit.charge("one"))).unwrap(), "without an id it passes");
    });
}
