//! A short part of the fault suite (`cargo xtask faults`): three servers on one store that fails
//! under load. What must hold at any speed is asserted; the times are for the suite.

use std::time::Duration;

use tollgate_faults::{Fault, Row, Scenario, Setup, Store};

use crate::TOLLGATE;

const SEED: u64 = 17;
/// The deadline is 100 ms, and an answer may take 50 ms more. Here three servers, the store, a
/// proxy and the load share the processors with other tests, so an answer may be delayed by far
/// more. This is less than a fault lasts: a call that waits for the end of the fault is found.
const LATEST: Duration = Duration::from_millis(1_000);

async fn rows(store: Store, fault: Fault) -> Vec<Row> {
    println!("seed {SEED}");
    let setup = Setup::short(TOLLGATE.to_owned(), SEED);
    let rows = Scenario { store, fault }.run(&setup).await.unwrap();
    for row in &rows {
        println!("{}", row.to_markdown());
        assert_eq!(row.violations(), Vec::<String>::new());
        assert!(row.answers.by_store > 0, "{}", row.answers);
        assert!(row.answers.longest < LATEST, "{}: {}", row.name(), row.answers);
    }
    rows
}

/// The mode of each policy decides the outage. On a busy machine there is contention too, before
/// and after it, which every mode refuses.
async fn outage(store: Store, fault: Fault) {
    let rows = rows(store, fault).await;
    let [open, closed, local] = rows.as_slice() else { panic!("{rows:?}") };
    for admitting in [open, local] {
        let Row { answers, .. } = admitting;
        assert!(answers.degraded > 0, "{answers}");
        assert!(!answers.refused.keys().any(|code| is_of_outage(code)), "{answers}");
    }
    assert_eq!(closed.answers.degraded, 0);
    let codes = &closed.answers.refused;
    assert!(codes.keys().any(|code| is_of_outage(code)), "{}", closed.answers);
}

fn is_of_outage(code: &str) -> bool {
    code == "store_unavailable" || code == "timeout"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_on_a_redis_that_fails_stays_exact() {
    outage(Store::Redis, Fault::Killed).await;
    outage(Store::Redis, Fault::Frozen).await;
    outage(Store::Redis, Fault::HalfOpen).await;
    rows(Store::Redis, Fault::Reset).await;
    let rows = rows(Store::Redis, Fault::OutOfMemory).await;
    for row in rows {
        // Refused, and no outage: it never fails open.
        assert!(row.answers.refused.contains_key("store_full"), "{}", row.answers);
        assert_eq!(row.answers.degraded, 0, "{}", row.answers);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_on_a_postgres_that_fails_stays_exact() {
    outage(Store::Postgres, Fault::Frozen).await;
    rows(Store::Postgres, Fault::ServerKilled).await;
    let rows = rows(Store::Postgres, Fault::LockedRows).await;
    for row in rows {
        assert!(row.answers.refused.contains_key("conflict_exhausted"), "{}", row.answers);
    }
}
