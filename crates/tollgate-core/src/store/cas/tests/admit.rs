//! One admission at a time: what is read, written, kept and refused.

use std::collections::HashMap;

use super::*;
use crate::algorithm::{Gcra, SlidingLog};
use crate::charge::Receipt;
use crate::cost::Cost;
use crate::state::State;
use crate::store::cas::{Version, VersionedCapability};
use crate::store::{BoxStore, Capability, MultiKey};

fn store(table: Table) -> Cas<Table> {
    cas(table, &ManualClock::at(START))
}

fn log(limit: u64) -> Limit {
    Limit::new("log", SlidingLog::new(Quota::per_hour(limit)).unwrap()).unwrap()
}

#[test]
fn a_denial_writes_nothing_and_a_charge_is_kept_until_it_is_fresh_and_a_slack() {
    let store = store(Table::single_key()).slack(minutes(3));
    let limit = per_hour("keep", 1);
    assert!(block_on(check(&store, limit.charge("one"))).unwrap());
    let rows = store.backend().rows().clone();
    let row = &rows[&limit.key("one").to_text()];
    assert_eq!(row.keep_until, START + HOUR + 180_000_000);
    assert_eq!(row.text, format!("[4,{HOUR},0,1,{START},1]"));
    assert!(!block_on(check(&store, limit.charge("one"))).unwrap());
    assert_eq!(*store.backend().rows(), rows);
    assert_eq!(Table::count(&store.backend().swaps_sent), 1);
}

#[test]
fn every_read_and_every_swap_is_a_round_trip() {
    let store = store(Table::single_key());
    let limit = per_hour("trips", 1);
    assert!(block_on(check(&store, limit.charge("one"))).unwrap());
    assert_eq!(store.round_trips(), Some(2));
    // A denial reads, and so does a look.
    assert!(!block_on(check(&store, limit.charge("one"))).unwrap());
    assert_eq!(stored(&store, &limit.charge("one")), 1);
    assert_eq!(BoxStore::new(store).round_trips(), Some(4));
}

#[test]
fn a_backend_that_recalls_nothing_is_read_before_each_swap() {
    let store = store(Table::single_key());
    let limit = per_hour("reads", 3);
    for charged in 1..=3 {
        assert!(block_on(check(&store, limit.charge("one"))).unwrap());
        assert_eq!(Table::count(&store.backend().reads), charged);
        assert_eq!(Table::count(&store.backend().swaps_sent), charged);
    }
}

#[test]
fn several_keys_are_charged_all_or_nothing_in_one_swap() {
    let store = store(Table::multi_key());
    let limits = [per_hour("wide", 10), per_hour("narrow", 2)];
    let charges = [limits[0].charge("one"), limits[1].charge("one"), limits[0].charge("one")];
    for expected in [true, true, false] {
        let outcome = block_on(store.admit(&Admission::of(&charges), NOW)).unwrap();
        let decisions = decisions(&charges, &outcome);
        assert_eq!(decisions.iter().all(Decision::is_allowed), expected);
    }
    assert_eq!(stored(&store, &charges[0]), 4);
    assert_eq!(stored(&store, &charges[1]), 2);
    assert_eq!(Table::count(&store.backend().swaps_sent), 2);
}

#[test]
fn several_keys_on_a_backend_for_one_are_unsupported_and_untouched() {
    let single = store(Table::single_key());
    let limits = [per_hour("wide", 10), per_hour("narrow", 2)];
    let charges = [limits[0].charge("one"), limits[1].charge("one")];
    let outcome = block_on(single.admit(&Admission::of(&charges), NOW));
    assert_eq!(code(outcome), Some(Code::Unsupported));
    assert_eq!(Table::count(&single.backend().reads), 0);
    // Two charges on one key are one key.
    let twice = [limits[0].charge("one"), limits[0].charge("one")];
    block_on(single.admit(&Admission::of(&twice), NOW)).unwrap();
    assert_eq!(stored(&single, &twice[0]), 2);
}

#[test]
fn the_capability_says_what_the_backend_can_do() {
    let capability =
        store(Table::new(VersionedCapability::multi_key(25).volatile().with_max_state_bytes(400)))
            .capability();
    let expected = Capability {
        exact: true,
        multi_key: MultiKey::Atomic,
        idempotent: true,
        max_state_bytes: 400,
        ..Capability::default()
    };
    assert_eq!(capability, expected);
    let capability = store(Table::single_key()).capability();
    assert_eq!(capability.multi_key, MultiKey::Unsupported);
    assert!(capability.idempotent && capability.durable);
}

#[test]
fn a_large_sliding_log_is_refused_before_the_backend_is_touched() {
    let store = store(Table::single_key());
    let error = block_on(check(&store, log(1_001).charge("one"))).unwrap_err();
    assert_eq!(error.code(), Code::Unsupported);
    assert_eq!(error.field(), Some("limit"));
    assert!(error.message().contains("1 to 1000"), "{error}");
    assert!(error.is_not_sent());
    assert_eq!(Table::count(&store.backend().reads), 0);
    assert!(block_on(check(&store, log(1_000).charge("one"))).unwrap());
}

#[test]
fn a_state_longer_than_the_backend_can_keep_is_refused_by_name() {
    let capability = VersionedCapability::single_key().with_max_state_bytes(120);
    let store = store(Table::new(capability));
    let limit = log(1_000);
    let charges = [limit.charge("one")];
    let mut admitted = 0;
    let error = loop {
        let at = CallContext::at(START + admitted);
        match block_on(store.admit(&Admission::of(&charges), at)) {
            Ok(_) => admitted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), Code::Unsupported);
    assert!(error.message().contains("sliding_log"), "{error}");
    assert!(error.message().contains("120 bytes"), "{error}");
    let rows = store.backend().rows().clone();
    assert!(rows.values().all(|row| row.text.len() <= 120));
    let loaded = block_on(store.load(&charges[..1], NOW)).unwrap();
    let words = loaded.states[0].as_ref().unwrap().words.len();
    assert_eq!(words as u64, 2 * admitted);
    assert!(admitted > 3);
}

#[test]
fn a_value_that_cannot_be_read_is_corrupt_until_it_is_reset() {
    let store = store(Table::single_key());
    let limit = per_hour("bad", 5);
    let charge = limit.charge("one");
    for text in ["", "nonsense", "[4]", "[999,1,2,3,4]", "[4,3600000000,0,5,1,281474976710657]"] {
        store.backend().overwrite(&charge.key().to_text(), text);
        let result = block_on(check(&store, charge));
        assert_eq!(code(result), Some(Code::CorruptState), "{text:?}");
        block_on(store.reset(charge.key(), NOW)).unwrap();
        assert!(block_on(check(&store, charge)).unwrap(), "{text:?}");
    }
}

#[test]
fn a_reset_forgets_the_key_and_never_repeats_a_version() {
    let store = store(Table::single_key());
    let limit = per_hour("reset", 1);
    let charge = limit.charge("one");
    block_on(store.reset(charge.key(), NOW)).unwrap();
    assert_eq!(Table::count(&store.backend().swaps_sent), 0, "no such key");
    for _ in 0..3 {
        assert!(block_on(check(&store, charge)).unwrap());
        assert!(!block_on(check(&store, charge)).unwrap());
        block_on(store.reset(charge.key(), NOW)).unwrap();
        let rows = store.backend().rows().clone();
        assert_eq!(rows[&charge.key().to_text()].text, "[]");
    }
    let keep_until = store.backend().rows()[&charge.key().to_text()].keep_until;
    assert_eq!(keep_until, START + 60_000_000);
}

#[test]
fn a_load_reads_each_key_once_and_writes_nothing() {
    let store = store(Table::single_key());
    let limit = per_hour("load", 5);
    assert!(block_on(check(&store, limit.charge("one"))).unwrap());
    let charges = ["one", "none", "one"].map(|subject| limit.charge(subject));
    let loaded = block_on(store.load(&charges, CallContext::at(START + 9))).unwrap();
    assert_eq!(loaded.now.reading(), START + 9);
    assert_eq!(loaded.states[0], loaded.states[2]);
    assert!(loaded.states[0].is_some() && loaded.states[1].is_none());
    assert_eq!(Table::count(&store.backend().swaps_sent), 1);
    store.backend().overwrite(&limit.key("bad").to_text(), "[x]");
    let bad = block_on(store.load(&[limit.charge("bad")], NOW));
    assert_eq!(code(bad), Some(Code::CorruptState));
}

#[test]
fn the_clock_of_the_backend_decides_where_there_is_one() {
    let clock = ManualClock::at(START + 123);
    let limit = per_hour("clock", 5);
    let charges = [limit.charge("one")];
    let admission = Admission::of(&charges);
    let owner = cas(Table::single_key().with_clock(&clock), &clock);
    let outcome = block_on(owner.admit(&admission, CallContext::store_clock())).unwrap();
    assert_eq!(outcome.now.reading(), START + 123);
    assert!(block_on(owner.load(&charges[..1], CallContext::store_clock())).is_ok());
    let without = cas(Table::single_key(), &clock);
    let outcome = block_on(without.admit(&admission, CallContext::store_clock()));
    assert_eq!(code(outcome), Some(Code::Unsupported));
    let loaded = block_on(without.load(&charges[..1], CallContext::store_clock()));
    assert_eq!(code(loaded), Some(Code::Unsupported));
    assert_eq!(Table::count(&without.backend().reads), 0);
}

#[test]
fn a_changed_quota_is_carried_over_even_by_a_denial() {
    let store = store(Table::single_key());
    let old = per_hour("change", 10);
    for _ in 0..10 {
        assert!(block_on(check(&store, old.charge("one"))).unwrap());
    }
    let quota = Quota::new(4, Duration::from_secs(7_200));
    let new = Limit::new("change", FixedWindow::new(quota, Anchor::Epoch).unwrap()).unwrap();
    assert!(!block_on(check(&store, new.charge("one"))).unwrap());
    let text = store.backend().rows()[&new.key("one").to_text()].text.clone();
    let state = State::from_text(&text).unwrap();
    assert_eq!(state.quota_id, new.rule().quota_id());
    assert_eq!(state.words[1], 4);
}

#[test]
fn a_refund_gives_back() {
    let store = store(Table::single_key());
    let limit = per_hour("refund", 2);
    let charge = limit.charge("one").cost(Cost::new(2).unwrap());
    assert!(block_on(check(&store, charge)).unwrap());
    let refund = [charge.refund(Receipt::Newest)];
    block_on(store.admit(&Admission::of(&refund), NOW)).unwrap();
    assert_eq!(stored(&store, &charge), 0);
    // Nothing is left to give back, so nothing is written.
    let swaps = Table::count(&store.backend().swaps_sent);
    block_on(store.admit(&Admission::of(&refund), NOW)).unwrap();
    assert_eq!(Table::count(&store.backend().swaps_sent), swaps);
}

#[test]
fn swept_or_not_the_decisions_are_those_of_the_plain_steps() {
    for seed in 0..30 {
        let store = store(Table::single_key()).slack(Duration::ZERO);
        let mut random = Random::seeded(seed);
        let gcra = Gcra::new(Quota::new(7, Duration::from_millis(13))).unwrap();
        let limits = [Limit::new("gcra", gcra).unwrap(), log(20), per_hour("fixed", 30)];
        let mut model: HashMap<String, State> = HashMap::new();
        let mut now = START;
        for step in 0..400 {
            now += random.next() % 9_000 * if random.below(50) == 0 { 400_000 } else { 1 };
            let limit = &limits[random.below(3)];
            let subject = ["a", "b"][random.below(2)];
            let cost = Cost::new(1 + random.next() % 3).unwrap();
            let charges = [limit.charge(subject).cost(cost)];
            let at = CallContext::at(now);
            let outcome = block_on(store.admit(&Admission::of(&charges), at)).unwrap();
            let key = charges[0].key().to_text();
            let states = [model.get(&key).cloned()];
            let expected = plan(&charges, &[0], &states, outcome.now).unwrap();
            assert_eq!(
                decision(&charges[0], &outcome),
                expected.decisions[0],
                "seed {seed}, step {step}"
            );
            for write in expected.writes {
                model.insert(key.clone(), write.state);
            }
            if random.below(5) == 0 {
                store.backend().sweep(now);
            }
        }
    }
}

#[test]
fn versions_are_compared_as_they_are() {
    assert_ne!(Version::Number(1), Version::Text("1".into()));
    assert_eq!(Version::Text("00ff".into()), Version::Text("00ff".into()));
}

#[test]
fn the_adapter_can_be_erased_and_its_futures_sent() {
    fn sent<T: Send>(future: T) -> T {
        future
    }
    let limit = per_hour("erased", 1);
    let charges = [limit.charge("one")];
    let admission = Admission::of(&charges);
    let plain = store(Table::multi_key());
    block_on(sent(plain.admit(&admission, NOW))).unwrap();
    let erased = BoxStore::new(plain);
    let batch = [admission, admission];
    for outcome in block_on(sent(admit_many(&erased, &batch, NOW))) {
        assert!(!decision(&charges[0], &outcome.unwrap()).is_allowed());
    }
    block_on(sent(erased.reset(charges[0].key(), NOW))).unwrap();
    let outcome = block_on(sent(erased.admit(&admission, NOW))).unwrap();
    assert!(decision(&charges[0], &outcome).is_allowed());
    block_on(erased.close());
}

#[test]
fn the_adapter_reports_what_its_backend_can_do() {
    let clock = ManualClock::at(START);
    for (backend, own_clock) in [
        (VersionedCapability::multi_key(4), false),
        (VersionedCapability::multi_key(4).with_own_clock(), true),
    ] {
        let cas = cas(Table::new(backend), &clock);
        let capability = cas.capability();
        assert_eq!((capability.exact, capability.own_clock), (true, own_clock));
        assert_eq!(cas.lost_races(), 0);
    }
}
