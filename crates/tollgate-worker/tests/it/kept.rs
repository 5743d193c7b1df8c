//! What outlives a restart of the runtime, an eviction, and a panic.

use crate::support::TestWorker;

fn left(worker: &TestWorker, store: &str, prefix: &str) -> (u16, String) {
    worker.get(&format!("/{store}/take?prefix={prefix}"))
}

#[test]
fn units_stay_spent_after_a_restart() {
    let worker = TestWorker::start();
    let prefix = worker.prefix();
    let stores = ["sqlite", "key_value", "inside_sqlite", "inside_key_value", "d1", "kv"];
    for store in stores {
        assert_eq!(left(&worker, store, &prefix), (200, "9".to_owned()), "{store}");
    }
    worker.restart();
    for store in stores {
        assert_eq!(left(&worker, store, &prefix), (200, "8".to_owned()), "{store}");
    }
}

#[test]
fn a_panic_in_one_request_leaves_the_next_one_working() {
    let worker = TestWorker::start();
    let prefix = worker.prefix();
    for turn in ["9", "8", "7"] {
        assert_eq!(worker.get("/panic").0, 500);
        for store in ["sqlite", "key_value", "d1"] {
            assert_eq!(left(&worker, store, &prefix), (200, turn.to_owned()), "{store}");
        }
    }
}

/// An object that ends, as by an eviction, or panics is made anew, over the same storage.
#[test]
fn an_object_that_ends_keeps_its_state() {
    let worker = TestWorker::start();
    let prefix = worker.prefix();
    for store in ["inside_sqlite", "inside_key_value"] {
        let call = |clause: &str| worker.get(&format!("/{store}/{clause}?prefix={prefix}"));
        let mut instances = vec![call("instance")];
        assert_eq!(left(&worker, store, &prefix), (200, "9".to_owned()), "{store}");
        assert_eq!(call("instance"), instances[0], "{store}");
        for (end, left_now) in [("abort", "8"), ("panic", "7")] {
            assert_eq!(call(end).0, 500, "{store} {end}");
            let expected = (200, left_now.to_owned());
            assert_eq!(left(&worker, store, &prefix), expected, "{store} {end}");
            let instance = call("instance");
            assert!(!instances.contains(&instance), "{store} {end}: the object has not ended");
            instances.push(instance);
        }
    }
}
