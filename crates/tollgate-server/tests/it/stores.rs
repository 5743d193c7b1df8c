//! The table of stores in the documentation, generated from their capabilities.

use std::fs;

use tollgate::store::{Capability, MultiKey, Store};
use tollgate_server::store::{self, STORES, StoreSpec};

fn row(StoreSpec { schemes, choose_for, .. }: &StoreSpec, can: Capability) -> String {
    let named: Vec<String> = schemes.iter().map(|scheme| format!("`{scheme}:`")).collect();
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
    let (exact, durable) = (yes(can.exact), yes(can.durable));
    let (ids, bounded) = (yes(can.idempotent), yes(can.bounded_ids));
    let named = named.join(", ");
    format!(
        "| {named} | {choose_for} | {shared} | {exact} | {several} | {ids} | {bounded} | {durable} \
         | {clock} | {size} |\n"
    )
}

/// The address of an example, with its file in an empty folder.
fn address(example: &str) -> String {
    let folder = concat!(env!("CARGO_TARGET_TMPDIR"), "/which-store/");
    // Another version of the store may have left a file. Usually there is none.
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).unwrap();
    example.replace("./", folder)
}

pub(crate) async fn table() -> String {
    let mut table = String::from(
        "| `--store` | choose it for | shared by processes | exact | several limits at once \
         | request ids | can bound them | outlives a process | whose clock decides \
         | largest state |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for spec in STORES {
        // None of them connects before the first call.
        let store = store::open(&address(spec.example), None).await.unwrap();
        let can = store.capability();
        assert_eq!(can.bounded_ids, spec.bounds_ids, "{}", spec.example);
        table.push_str(&row(spec, can));
    }
    table
}

#[test]
fn every_example_has_a_scheme_of_its_store() {
    for StoreSpec { schemes, example, .. } in STORES {
        let scheme = store::scheme_of(example).unwrap();
        assert!(schemes.contains(&scheme), "{example}");
    }
}
