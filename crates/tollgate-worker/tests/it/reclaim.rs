//! Storage of values that mean nothing any more is reclaimed, and only theirs.

use std::time::Duration;

use tollgate_test_servers::wait::until_ok;
use tollgate_test_servers::{Error, Result};

use crate::support::TestWorker;

const LONG: Duration = Duration::from_secs(120);
/// Charges a key at a reading in the past.
const PAST: &str = "/d1/take_in_the_past";

/// Waits until a count is as expected.
fn until_count(worker: &TestWorker, path: &str, expected: &str) {
    let counted = until_ok(LONG, || -> Result<()> {
        let (status, count) = worker.get(path);
        match (status, &*count) {
            (200, count) if count == expected => Ok(()),
            _ => Err(Error::new(format!("{path}: {status} {count}, not {expected}"))),
        }
    });
    counted.unwrap();
}

#[test]
fn the_alarm_of_an_object_deletes_what_means_nothing() {
    let worker = TestWorker::shared();
    let prefix = worker.prefix();
    for store in ["reclaimed_sqlite", "reclaimed_key_value"] {
        let call = |clause: &str| worker.get(&format!("/{store}/{clause}?prefix={prefix}"));
        assert_eq!(call("fill"), (200, "filled".to_owned()), "{}", worker.log());
        // What is still charged stays.
        until_count(worker, &format!("/{store}/count?prefix={prefix}"), "1");
    }
}

#[test]
fn expired_request_ids_make_room_wherever_a_sweep_stands() {
    let worker = TestWorker::shared();
    let prefix = worker.prefix();
    for store in ["reclaimed_sqlite", "reclaimed_key_value"] {
        let (status, body) = worker.get(&format!("/{store}/ids?prefix={prefix}-ids"));
        assert_eq!((status, &*body), (200, "passed"), "{store}: {}", worker.log());
    }
}

#[test]
fn the_oldest_request_ids_make_room() {
    let worker = TestWorker::shared();
    let prefix = worker.prefix();
    for store in ["reclaimed_sqlite", "reclaimed_key_value"] {
        let (status, body) = worker.get(&format!("/{store}/forget?prefix={prefix}-forget"));
        assert_eq!((status, &*body), (200, "passed"), "{store}: {}", worker.log());
    }
}

/// In a database of its own: other tests charge at readings in the past.
#[test]
fn the_cron_trigger_deletes_rows_of_d1_that_mean_nothing() {
    let worker = TestWorker::start();
    for _ in 0..3 {
        let prefix = worker.prefix();
        assert_eq!(worker.get(&format!("{PAST}?prefix={prefix}")).0, 200, "{}", worker.log());
    }
    let prefix = worker.prefix();
    assert_eq!(worker.get(&format!("/d1/take?prefix={prefix}")).0, 200);
    assert_eq!(worker.get("/d1/count"), (200, "4".to_owned()));
    assert_eq!(worker.get("/cdn-cgi/handler/scheduled"), (200, "ok".to_owned()));
    until_count(&worker, "/d1/count", "1");
}
