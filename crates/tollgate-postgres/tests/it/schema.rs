//! Tables that the store makes, finds, and refuses.

use tollgate_core::Code;
use tollgate_core::store::{CallContext, Store};
use tollgate_postgres::{Config, Durability, Postgres};
use tollgate_test_servers::PgVersion;
use tollgate_test_servers::shared::postgres;
use tollgate_testkit::runtime::join_all;

use crate::support::{TEST_TIMEOUT, block_on, config, config_in, limit, schema, take, take_once};

#[test]
fn nodes_that_start_together_make_the_tables_once() {
    block_on(async {
        let (url, schema) = (postgres(PgVersion::V15).url(), schema());
        let opened = join_all((0..8).map(|_| Postgres::connect(config_in(&url, &schema)))).await;
        let single = limit(1);
        for store in opened {
            let store = store.unwrap();
            take(&store, &single, "a").await.unwrap();
            store.close().await;
        }
    });
}

#[test]
fn any_name_will_do() {
    block_on(async {
        let server = postgres(PgVersion::V18);
        let odd = format!("{}\"; DROP SCHEMA x; --", schema());
        let config = config(&server.url()).tables(&odd, "my \"limits\"");
        let store = Postgres::connect(config).await.unwrap();
        assert!(take(&store, &limit(1), "a").await.unwrap());
        assert_eq!(store.sweep().await.unwrap(), 0);
    });
}

#[test]
fn tables_of_a_newer_version_are_refused() {
    block_on(async {
        let (server, schema) = (postgres(PgVersion::V15), schema());
        Postgres::migrate(config_in(&server.url(), &schema)).await.unwrap();
        server.sql(&format!("UPDATE {schema}.limits_version SET version = 99")).unwrap();
        let error = Postgres::connect(config_in(&server.url(), &schema)).await.unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("table")), "{error}");
        let error = Postgres::migrate(config_in(&server.url(), &schema)).await.unwrap_err();
        assert_eq!(error.code(), Code::ConfigInvalid, "{error}");
    });
}

/// A missing table must never look like an outage: then nothing would be limited.
#[test]
fn missing_tables_are_no_outage() {
    block_on(async {
        let (server, schema) = (postgres(PgVersion::V15), schema());
        let config = config_in(&server.url(), &schema);
        let store = Postgres::open(config.clone().migrates(false)).unwrap();
        let error = take(&store, &limit(1), "a").await.unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("table")), "{error}");
        Postgres::migrate(config).await.unwrap();
        assert!(take(&store, &limit(1), "a").await.unwrap());
        server.sql(&format!("DROP TABLE {schema}.limits")).unwrap();
        let error = take(&store, &limit(1), "a").await.unwrap_err();
        assert_eq!(error.code(), Code::ConfigInvalid, "{error}");
    });
}

#[test]
fn a_user_that_may_only_read_and_write_suffices() {
    block_on(async {
        let (server, schema) = (postgres(PgVersion::V15), schema());
        let owner = config_in(&server.url(), &schema);
        Postgres::migrate(owner).await.unwrap();
        let grant = format!(
            "CREATE USER app_{schema}; GRANT USAGE ON SCHEMA {schema} TO app_{schema}; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO app_{schema}"
        );
        server.sql(&grant).unwrap();
        let url = server.url().replace("postgres@", &format!("app_{schema}@"));
        let store = Postgres::connect(config_in(&url, &schema)).await.unwrap();
        assert!(take(&store, &limit(1), "a").await.unwrap());
        store.reset(limit(1).key("a"), CallContext::store_clock()).await.unwrap();
        assert_eq!(store.sweep().await.unwrap(), 0);
    });
}

#[test]
fn unlogged_tables_are_unlogged_and_say_so() {
    block_on(async {
        let (server, schema) = (postgres(PgVersion::V15), schema());
        let config = config_in(&server.url(), &schema).durability(Durability::Unlogged);
        let store = Postgres::connect(config).await.unwrap();
        assert!(!store.capability().durable);
        assert!(take(&store, &limit(1), "a").await.unwrap());
        let kinds = format!(
            "SELECT string_agg(relpersistence::text, '') FROM pg_class WHERE relname IN \
             ('limits', 'limits_once') AND relnamespace = '{schema}'::regnamespace"
        );
        assert_eq!(server.sql(&kinds).unwrap(), "uu");
    });
}

#[test]
fn relaxed_durability_is_a_setting_of_the_transaction_alone() {
    block_on(async {
        let server = postgres(PgVersion::V18);
        let config = config(&server.url()).durability(Durability::Relaxed);
        let store = Postgres::connect(config).await.unwrap();
        assert!(store.capability().durable);
        assert!(take(&store, &limit(1), "a").await.unwrap());
    });
}

#[test]
fn a_database_in_another_encoding_is_refused() {
    block_on(async {
        let server = postgres(PgVersion::V15);
        let name = format!("latin_{}", schema());
        let make =
            format!("CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
        server.sql(&make).unwrap();
        let config: Config = server.url_of(&name).parse().unwrap();
        let config = config.connect_timeout(TEST_TIMEOUT);
        let error = Postgres::connect(config.operation_timeout(TEST_TIMEOUT)).await.unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("url")), "{error}");
        assert!(error.message().contains("LATIN1"), "{error}");
    });
}

/// Version 1 kept request ids in other columns, and empty rows. States and permissions survive.
#[test]
fn tables_of_version_1_are_migrated() {
    block_on(async {
        let (server, schema) = (postgres(PgVersion::V15), schema());
        let config = config_in(&server.url(), &schema);
        let store = Postgres::connect(config.clone()).await.unwrap();
        let two = limit(2);
        assert!(take(&store, &two, "a").await.unwrap());
        store.close().await;
        let version_1 = format!(
            "CREATE USER old_{schema}; GRANT USAGE ON SCHEMA {schema} TO old_{schema}; \
             DROP TABLE {schema}.limits_once; CREATE TABLE {schema}.limits_once \
             (key text COLLATE \"C\", id text COLLATE \"C\", payload text NOT NULL, \
             expires int8 NOT NULL, decided int8 NOT NULL, evidence text NOT NULL, \
             PRIMARY KEY (key, id)); INSERT INTO {schema}.limits_once \
             VALUES ('tollgate:test:{{a}}', 'id', '1', 9000000000000000, 1, '[1,2,3,4]'); \
             INSERT INTO {schema}.limits VALUES ('tollgate:test:{{b}}', '', 9000000000000000); \
             UPDATE {schema}.limits_version SET version = 1; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO old_{schema}"
        );
        server.sql(&version_1).unwrap();
        let user = server.url().replace("postgres@", &format!("old_{schema}@"));
        let error = Postgres::connect(config_in(&user, &schema).migrates(false)).await.unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("table")), "{error}");
        Postgres::migrate(config).await.unwrap();
        let store = Postgres::connect(config_in(&user, &schema)).await.unwrap();
        assert!(take(&store, &two, "b").await.unwrap());
        assert!(take_once(&store, two.charge("a"), "id").await.unwrap());
        assert!(
            take_once(&store, two.charge("a"), "id").await.unwrap(),
            "the id is recorded again"
        );
        assert!(!take(&store, &two, "a").await.unwrap(), "a state was lost");
    });
}
