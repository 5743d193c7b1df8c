//! The conformance suite and the golden vectors, with the time given by the suite and with the
//! clock of the database, on two versions of PostgreSQL.

use std::time::Duration;

use tollgate_postgres::Postgres;
use tollgate_test_servers::PgVersion;
use tollgate_test_servers::shared::postgres;
use tollgate_testkit::conformance::Options;

use crate::support::{block_on, config};

const RECORDS_MAX: u64 = 120;

async fn timeless(version: PgVersion) -> Postgres {
    let config = config(&postgres(version).url()).max_request_ids(RECORDS_MAX);
    Postgres::connect(config.accepts_readings()).await.unwrap()
}

/// Sweeps all the time, which must not be noticed.
async fn clocked(version: PgVersion) -> Postgres {
    let every = Some(Duration::from_millis(5));
    Postgres::connect(config(&postgres(version).url()).sweep_every(every)).await.unwrap()
}

fn given() -> Options {
    Options { injects_time: Some(true), records_max: usize::try_from(RECORDS_MAX).ok() }
}

mod v15 {
    use super::*;
    tollgate_testkit::store_conformance!(
        runner = block_on,
        open = || timeless(PgVersion::V15),
        options = given()
    );
}

mod v15_by_its_own_clock {
    use super::*;
    tollgate_testkit::store_conformance!(runner = block_on, open = || clocked(PgVersion::V15));
}

mod v18 {
    use super::*;
    tollgate_testkit::store_conformance!(
        runner = block_on,
        open = || timeless(PgVersion::V18),
        options = given()
    );
}

mod v18_by_its_own_clock {
    use super::*;
    tollgate_testkit::store_conformance!(runner = block_on, open = || clocked(PgVersion::V18));
}
