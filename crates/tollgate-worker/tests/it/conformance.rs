//! The conformance suite and the golden vectors over each store, inside of workerd: one test per
//! store and clause. Over Workers KV, clauses about exactness and request ids do not apply.

use crate::support::TestWorker;

macro_rules! over {
    ($(#[$doc:meta])* $store:ident $($clause:ident)*) => {
        $(#[$doc])*
        mod $store {
            $(
                #[test]
                fn $clause() {
                    super::passes(stringify!($store), stringify!($clause));
                }
            )*
        }
    };
}

tollgate_testkit::each_clause! { [over] /** Durable Objects with SQLite. */ sqlite }
tollgate_testkit::each_clause! { [over] /** Durable Objects with key-value storage. */ key_value }
tollgate_testkit::each_clause! { [over] /** One Durable Object for all keys. */ single }
tollgate_testkit::each_clause! { [over] /** Inside of an object with SQLite. */ inside_sqlite }
tollgate_testkit::each_clause! {
    [over] /** Inside of one with key-value storage. */ inside_key_value
}
tollgate_testkit::each_clause! { [over] /** D1. */ d1 }
tollgate_testkit::each_clause! { [over] /** Workers KV. */ kv }
tollgate_testkit::each_clause! { [over] /** Upstash through `fetch`. */ upstash }

#[test]
fn charges_on_several_subjects_are_all_or_nothing() {
    for store in ["sqlite", "key_value", "single", "inside_sqlite", "d1"] {
        passes(store, "several_subjects");
    }
}

#[test]
fn an_object_that_fails_later_leaves_no_charge() {
    passes("fragile", "an_error_undoes_what_was_charged");
}

#[test]
fn the_outage_mode_decides_where_an_object_fails() {
    passes("fragile", "the_outage_mode_decides");
}

/// Callers can fill a store: that must not open it.
#[test]
fn a_store_without_room_admits_none() {
    let worker = TestWorker::shared();
    for store in ["fragile_single", "d1"] {
        // Makes the table.
        let taken = worker.get(&format!("/{store}/take?prefix={}", worker.prefix()));
        assert_eq!(taken, (200, "9".to_owned()), "{}", worker.log());
        passes(store, "a_full_store_admits_none");
    }
}

fn passes(store: &str, clause: &str) {
    let worker = TestWorker::shared();
    let (status, body) = worker.get(&format!("/{store}/{clause}?prefix={}", worker.prefix()));
    assert_eq!((status, &*body), (200, "passed"), "{}", worker.log());
}
