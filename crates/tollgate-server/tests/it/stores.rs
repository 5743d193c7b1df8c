//! The table of stores in the documentation, generated from their capabilities.

use std::fs;

use tollgate::store::{Capability, MultiKey, Store};
use tollgate_server::store;

use crate::generated;

/// An address of each kind, its other schemes, and when to choose it. A new store is one line here.
const STORES: &[(&str, &[&str], &str)] = &[
    ("memory:", &[], "one process, or a limit per process is what is meant"),
    ("redis://127.0.0.1:1", &["rediss", "redis-sentinel"], "several processes: the usual choice"),
    (
        "redis-cluster://127.0.0.1:1",
        &["rediss-cluster"],
        "more keys or load than one Redis carries",
    ),
    (
        "postgres://127.0.0.1:1/t",
        &["postgresql"],
        "a PostgreSQL is there and a Redis is not; billing",
    ),
    (
        "dynamodb://limits?region=eu-central-1",
        &[],
        "what runs on AWS and wants no server of its own",
    ),
    ("denokv+http://token@127.0.0.1:1", &["denokv+https"], "what runs on Deno"),
    (
        concat!("sqlite:", env!("CARGO_TARGET_TMPDIR"), "/which-store.db"),
        &[],
        "one machine, and limits that outlive a restart; no server",
    ),
];

fn row((address, schemes, choose): (&str, &[&str], &str), can: Capability) -> String {
    let scheme = store::scheme_of(address).unwrap();
    let named = std::iter::once(&scheme).chain(schemes).map(|scheme| format!("`{scheme}:`"));
    let named: Vec<String> = named.collect();
    let yes = |is: bool| if is { "yes" } else { "no" };
    let several = match can.multi_key {
        MultiKey::Atomic => "atomic",
        MultiKey::Compensated => "charged in order, undone exactly",
        _ => "no",
    };
    let clock = match (can.in_process, can.own_clock) {
        (true, _) => "this process's",
        (_, true) => "the server's",
        (_, false) => "each node's",
    };
    let size = match can.max_state_bytes {
        0 => "no bound".to_owned(),
        bytes => format!("{bytes} bytes"),
    };
    let shared = yes(!can.in_process);
    let (exact, durable, ids) = (yes(can.exact), yes(can.durable), yes(can.idempotent));
    let named = named.join(", ");
    format!(
        "| {named} | {choose} | {shared} | {exact} | {several} | {ids} | {durable} | {clock} \
         | {size} |\n"
    )
}

/// Removes the file that another version of the store may have left.
fn remove_file() {
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/which-store.db");
    for suffix in ["", "-wal", "-shm", "-turn"] {
        // Usually it does not exist.
        let _ = fs::remove_file(format!("{path}{suffix}"));
    }
}

async fn table() -> String {
    let mut table = String::from(
        "| `--store` | choose it for | shared by processes | exact | several limits at once \
         | request ids | outlives a process | whose clock decides | largest state |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    remove_file();
    for (address, schemes, choose) in STORES {
        // None of them connects before the first call.
        let store = store::open(address, None).await.unwrap();
        table.push_str(&row((address, schemes, choose), store.capability()));
    }
    table
}

#[tokio::test]
async fn the_table_of_stores_is_current() {
    generated::check("stores.md", "which store", &table().await);
}

#[test]
fn every_address_that_can_be_opened_is_in_the_table() {
    let named = |scheme: &str| {
        let is = |(address, others, _): &&(&str, &[&str], &str)| {
            store::scheme_of(address) == Some(scheme) || others.contains(&scheme)
        };
        STORES.iter().find(is).is_some()
    };
    let missing: Vec<&str> = store::schemes().filter(|scheme| !named(scheme)).collect();
    assert!(missing.is_empty(), "add a line to STORES for {missing:?}");
}
