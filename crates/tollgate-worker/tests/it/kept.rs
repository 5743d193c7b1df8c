//! What outlives a restart of the runtime, and a panic.

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
