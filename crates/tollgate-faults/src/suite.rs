//! The whole suite: every store with the faults that can happen to it.

use crate::backend::Store;
use crate::fault::Fault;
use crate::scenario::Scenario;

const OF_SERVERS: &[Fault] =
    &[Fault::Killed, Fault::Frozen, Fault::Reset, Fault::HalfOpen, Fault::ServerKilled];
const SLOW: &[Fault] = &[Fault::Latency(24), Fault::Latency(60), Fault::Latency(120)];
const CHAOS: &[Fault] = &[Fault::Chaos(20), Fault::Chaos(60)];

/// The scenarios, in the order of the table.
#[must_use]
pub fn suite() -> Vec<Scenario> {
    let of = |store| -> [&[Fault]; 4] {
        match store {
            Store::Redis => [OF_SERVERS, SLOW, &[Fault::Flushed, Fault::OutOfMemory], CHAOS],
            Store::Sentinel => [&[Fault::FailOver], &[], &[], &[]],
            Store::Cluster => [OF_SERVERS, &[Fault::Latency(120)], &[], &[]],
            Store::Postgres => [OF_SERVERS, SLOW, &[Fault::LockedRows], CHAOS],
            Store::Sqlite => [&[Fault::ServerKilled], &[], &[], &[]],
            Store::DynamoDb => [&[Fault::Frozen, Fault::ServerKilled], SLOW, &[], &[]],
            Store::DenoKv => [&[Fault::Killed, Fault::Frozen, Fault::ServerKilled], SLOW, &[], &[]],
        }
    };
    let scenarios = Store::ALL.into_iter().flat_map(|store| {
        let faults = of(store).concat();
        faults.into_iter().map(move |fault| Scenario { store, fault })
    });
    scenarios.collect()
}
