//! The sweep deletes expired rows, and no others.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_postgres::Postgres;
use tollgate_test_servers::PgVersion;
use tollgate_test_servers::shared::postgres;

use crate::support::{
    TEST_TIMEOUT, block_on, client, config_in, limit, schema, spent, take, take_once,
};

/// Thousands of rows that expired in 1970, over many pages.
fn old_rows(schema: &str) -> String {
    format!(
        "INSERT INTO {schema}.limits SELECT 'old ' || i, '[]', 1 \
         FROM generate_series(1, 20000) AS i; \
         INSERT INTO {schema}.limits_once SELECT 'old ' || i, '', 1 \
         FROM generate_series(1, 3000) AS i"
    )
}

#[test]
fn what_has_expired_is_deleted_and_nothing_else() {
    for version in PgVersion::ALL {
        block_on(async {
            let (server, schema) = (postgres(version), schema());
            let config = config_in(&server.url(), &schema).sweep_every(None);
            let store = Postgres::connect(config).await.unwrap();
            let many = limit(1_000);
            assert!(take_once(&store, many.charge("live"), "id").await.unwrap());
            server.sql(&old_rows(&schema)).unwrap();
            let holder = client(&server.url()).await;
            let hold = format!("BEGIN; SELECT FROM {schema}.limits WHERE key = 'old 7' FOR UPDATE");
            holder.batch_execute(&hold).await.unwrap();
            assert_eq!(store.sweep().await.unwrap(), 22_999, "all but the one that is held");
            holder.batch_execute("ROLLBACK").await.unwrap();
            assert_eq!(store.sweep().await.unwrap(), 1);
            assert_eq!(store.sweep().await.unwrap(), 0);
            assert_eq!(spent(&store, &many, "live").await, 1);
            assert!(take_once(&store, many.charge("live"), "id").await.unwrap());
            assert_eq!(spent(&store, &many, "live").await, 1, "the request id was forgotten");
        });
    }
}

/// A row stays for the slack after it means nothing any more.
#[test]
fn what_expired_within_the_slack_stays() {
    block_on(async {
        let (server, schema) = (postgres(PgVersion::V15), schema());
        let config = config_in(&server.url(), &schema).sweep_every(None);
        let store = Postgres::connect(config).await.unwrap();
        let thousand = tollgate_core::Quota::per_second(1_000);
        let gcra = tollgate_core::algorithm::Gcra::new(thousand).unwrap();
        let brief = tollgate_core::Limit::new("brief", gcra).unwrap();
        assert!(take_once(&store, brief.charge("a"), "id").await.unwrap());
        let left = "extract(epoch FROM clock_timestamp()) * 1000000";
        let query = format!("SELECT expires - {left} BETWEEN 50e6 AND 61e6 FROM {schema}.limits");
        assert_eq!(server.sql(&query).unwrap(), "t");
        assert_eq!(store.sweep().await.unwrap(), 0);
    });
}

#[test]
fn the_sweep_in_the_background_reclaims_by_itself() {
    block_on(async {
        let (server, schema) = (postgres(PgVersion::V15), schema());
        let config = config_in(&server.url(), &schema).sweep_every(Some(Duration::from_millis(1)));
        let store = Postgres::connect(config).await.unwrap();
        server.sql(&old_rows(&schema)).unwrap();
        let watcher = client(&server.url()).await;
        let left = format!(
            "SELECT (SELECT count(*) FROM {schema}.limits) \
             + (SELECT count(*) FROM {schema}.limits_once)"
        );
        let gone = async {
            while watcher.query_one(&left, &[]).await.unwrap().get::<_, i64>(0) > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, gone).await.expect("all rows go");
        assert!(take(&store, &limit(1), "a").await.unwrap());
        store.close().await;
    });
}

/// While one process sweeps, others leave it to it.
#[test]
fn one_process_sweeps_at_a_time() {
    block_on(async {
        let (server, schema) = (postgres(PgVersion::V15), schema());
        let config = config_in(&server.url(), &schema).sweep_every(None);
        let store = Postgres::connect(config).await.unwrap();
        server.sql(&old_rows(&schema)).unwrap();
        let numbers =
            "SELECT objid::int8 + (classid::int8 << 32) FROM pg_locks WHERE locktype = 'advisory'";
        let taken = client(&server.url()).await;
        let number = sweep_lock(&schema);
        taken
            .batch_execute(&format!("BEGIN; SELECT pg_advisory_xact_lock({number})"))
            .await
            .unwrap();
        let held: Vec<i64> =
            taken.query(numbers, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        assert!(held.contains(&number), "{held:?}");
        assert_eq!(store.sweep().await.unwrap(), 0, "swept although another process sweeps");
        taken.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(store.sweep().await.unwrap(), 23_000);
    });
}

/// FNV-1a over the job and the names, as `Names::lock_number` has it.
fn sweep_lock(schema: &str) -> i64 {
    let text = format!("sweep\0{schema}\0limits");
    let hash = text.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    i64::from_ne_bytes(hash.to_ne_bytes())
}
