//! The whole suite: every store with the faults that can happen to it.

use crate::backend::Store;
use crate::fault::Fault;
use crate::scenario::Scenario;

const OF_SERVERS: &[Fault] = &[Fault::Killed, Fault::Frozen];
const OF_NETWORK: &[Fault] = &[Fault::Reset, Fault::HalfOpen];
const OF_FLEET: &[Fault] = &[Fault::ServerKilled];
const SLOW: &[Fault] = &[Fault::Latency(24), Fault::Latency(60), Fault::Latency(120)];
const CHAOS: &[Fault] = &[Fault::Chaos(20)];
const LONG_CHAOS: &[Fault] = &[Fault::Chaos(60)];
const OF_REDIS: &[Fault] = &[Fault::Flushed, Fault::OutOfMemory];
const OF_FILES: &[Fault] = &[Fault::LockedFile, Fault::BusyFile, Fault::FullDisk];

/// The scenarios, in the order of the table.
#[must_use]
pub fn suite() -> Vec<Scenario> {
    let of = |store| -> Vec<&[Fault]> {
        match store {
            Store::Redis => vec![OF_SERVERS, OF_NETWORK, OF_FLEET, SLOW, OF_REDIS, LONG_CHAOS],
            Store::Sentinel => vec![&[Fault::FailOver]],
            Store::Cluster => {
                vec![OF_SERVERS, &[Fault::FailOver], OF_NETWORK, OF_FLEET, SLOW, LONG_CHAOS]
            }
            Store::Postgres => {
                vec![OF_SERVERS, OF_NETWORK, OF_FLEET, SLOW, &[Fault::LockedRows], LONG_CHAOS]
            }
            Store::Sqlite => vec![OF_FILES, OF_FLEET, LONG_CHAOS],
            Store::DynamoDb => vec![&[Fault::Frozen], OF_NETWORK, OF_FLEET, SLOW, CHAOS],
            Store::DenoKv => vec![OF_SERVERS, OF_NETWORK, OF_FLEET, SLOW, CHAOS],
        }
    };
    let scenarios = Store::ALL.into_iter().flat_map(|store| {
        let faults = of(store).concat();
        faults.into_iter().map(move |fault| Scenario { store, fault })
    });
    scenarios.collect()
}
