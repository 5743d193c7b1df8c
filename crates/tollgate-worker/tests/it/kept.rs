//! What outlives a restart of the runtime, the eviction of an object, and a panic.

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

/// Takes a unit before, between and after panics inside of the object; the answers to the calls
/// during which it panics.
fn taken_around_panics(worker: &TestWorker) -> Vec<(u16, String)> {
    let prefix = worker.prefix();
    let mut answers = Vec::new();
    for turn in ["9", "8", "7"] {
        let found = left(worker, "fragile_single", &prefix);
        assert_eq!(found, (200, turn.to_owned()), "{}", worker.log());
        let panics = format!("/fragile_single/take_and_panic?prefix={prefix}");
        answers.push(worker.get(&panics));
    }
    assert_eq!(left(worker, "fragile_single", &prefix), (200, "6".to_owned()));
    answers
}

#[test]
fn the_outage_mode_decides_when_an_object_panics() {
    let answers = taken_around_panics(&TestWorker::start_with_objects_apart());
    assert_eq!(answers, vec![(200, "closed".to_owned()); 3]);
}

/// The caller runs on the instance that panics, so it cannot decide: the runtime answers for it
/// once its deadline has passed.
#[test]
fn a_panic_in_an_object_of_the_same_instance_fails_the_call() {
    for (status, body) in taken_around_panics(&TestWorker::start()) {
        assert_eq!(status, 500, "{body}");
    }
}

#[test]
fn units_stay_spent_when_an_object_is_evicted() {
    let worker = TestWorker::start();
    let prefix = worker.prefix();
    for store in ["sqlite", "key_value", "inside_sqlite", "inside_key_value"] {
        let made = || worker.get("/made").1;
        assert_eq!(left(&worker, store, &prefix), (200, "9".to_owned()), "{store}");
        let before = made();
        assert_eq!(left(&worker, store, &prefix), (200, "8".to_owned()), "{store}");
        assert_eq!(made(), before, "{store}: the object was made anew without being evicted");
        assert_eq!(worker.get("/evict"), (200, "evicted".to_owned()), "{}", worker.log());
        // Exactly the other eight pass, of twenty at once.
        let paths = vec![format!("/{store}/take?prefix={prefix}"); 20];
        let answers = worker.get_at_once(&paths);
        let passed = answers.iter().filter(|(_, left)| left.parse::<u64>().is_ok()).count();
        assert_eq!(passed, 8, "{store}: {answers:?}");
        assert_ne!(made(), before, "{store}: the object was not made anew");
    }
}

/// An object decides one call after another: a caller that disconnects must not keep its turn.
#[test]
fn callers_that_disconnect_block_no_others() {
    let worker = TestWorker::start();
    for store in ["sqlite", "key_value", "inside_key_value", "d1", "kv"] {
        let prefix = worker.prefix();
        for _ in 0..100 {
            worker.send_and_disconnect(&format!("/{store}/take?prefix={prefix}"));
        }
        // Some of those were charged, and may be charged still.
        let (status, taken) = left(&worker, store, &prefix);
        let is_decided = taken == "denied" || taken.parse::<u64>().is_ok_and(|left| left < 10);
        assert!(status == 200 && is_decided, "{store}: {status} {taken}");
    }
}

/// Objects share an instance with each other and with the Worker, and a panic in any of them ends
/// all that is under way in it.
#[test]
fn what_is_under_way_during_a_panic_is_answered() {
    let worker = TestWorker::start();
    for panics in ["/panic", "/fragile_single/take_and_panic"] {
        for _ in 0..4 {
            let prefix = worker.prefix();
            let mut paths = Vec::new();
            for store in ["sqlite", "key_value", "d1"] {
                // With a deadline of a second; only `fragile` panics.
                paths.extend(vec![format!("/{store}/take_and_panic?prefix={prefix}"); 8]);
            }
            paths.insert(12, format!("{panics}?prefix={prefix}"));
            let answers = worker.get_at_once(&paths);
            assert!(answers.iter().all(|(status, _)| [200, 500].contains(status)), "{answers:?}");
            assert_eq!(answers[12].0, 500, "{answers:?}");
            for store in ["sqlite", "key_value", "d1"] {
                assert_eq!(left(&worker, store, &prefix), (200, "9".to_owned()), "{store}");
            }
        }
    }
}
