//! Every decision in a table, for as long as was asked.

use std::time::Duration;

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Cost, Receipt};
use tollgate_postgres::{Postgres, Retention};
use tollgate_test_servers::PgVersion;
use tollgate_test_servers::shared::postgres;

use crate::support::{admitted, block_on, config_in, limit, schema, spent, take, take_once};

#[test]
fn every_decision_is_written_once_and_their_sum_is_what_was_used() {
    for version in PgVersion::ALL {
        block_on(async {
            let (server, schema) = (postgres(version), schema());
            let config = config_in(&server.url(), &schema).audit(Retention::ForEver);
            let store = Postgres::connect(config).await.unwrap();
            let five = limit(5);
            let three = Cost::new(3).unwrap();
            assert!(take_once(&store, five.charge("a").cost(three), "id").await.unwrap());
            assert!(take_once(&store, five.charge("a").cost(three), "id").await.unwrap());
            assert!(
                !admitted(&store, &Admission::of(&[five.charge("a").cost(three)])).await.unwrap()
            );
            let nine = five.charge("a").cost(Cost::new(9).unwrap());
            assert!(!admitted(&store, &Admission::of(&[nine])).await.unwrap());
            let both = [five.charge("b"), five.charge("a").cost(three)];
            assert!(!admitted(&store, &Admission::of(&both)).await.unwrap());
            let refund = [five.charge("a").refund(Receipt::Newest)];
            store.admit(&Admission::of(&refund), CallContext::store_clock()).await.unwrap();
            assert_eq!(spent(&store, &five, "a").await, 2);
            // Eight of nineteen more units: as many as the ceiling and the debt have room for.
            let more = [five.charge("a").settle(Receipt::Newest, 20)];
            store.admit(&Admission::of(&more), CallContext::store_clock()).await.unwrap();
            let rows = format!(
                "SELECT coalesce(id, '-'), policy, key, cost, verdict, remaining, wait_ms IS NULL, \
                 at BETWEEN now() - interval '1 minute' AND now() FROM {schema}.limits_audit \
                 ORDER BY at, key"
            );
            assert_eq!(
                server.sql(&rows).unwrap().lines().collect::<Vec<_>>(),
                [
                    "id|test|tollgate:test:{a}|3|allowed|2|f|t",
                    "-|test|tollgate:test:{a}|3|denied|2|f|t",
                    "-|test|tollgate:test:{a}|9|never|2|t|t",
                    "-|test|tollgate:test:{a}|3|denied|2|f|t",
                    "-|test|tollgate:test:{b}|1|denied|5|f|t",
                    "-|test|tollgate:test:{a}|-1|refund|3|f|t",
                    "-|test|tollgate:test:{a}|8|settle|0|f|t",
                ]
            );
            let used = format!(
                "SELECT sum(cost) FROM {schema}.limits_audit \
                 WHERE verdict IN ('allowed', 'refund', 'settle')"
            );
            assert_eq!(server.sql(&used).unwrap(), "10");
            assert_eq!(spent(&store, &five, "a").await, 5);
        });
    }
}

#[test]
fn old_days_go_and_young_ones_stay_and_a_week_is_made_ahead() {
    block_on(async {
        let (server, schema) = (postgres(PgVersion::V15), schema());
        let week = Retention::For(Duration::from_secs(7 * 86_400));
        let config = config_in(&server.url(), &schema).audit(week).sweep_every(None);
        let store = Postgres::connect(config).await.unwrap();
        assert!(take(&store, &limit(5), "a").await.unwrap());
        let partition = |day: &str, from: &str, to: &str| {
            let make = format!(
                "CREATE TABLE {schema}.limits_audit_{day} PARTITION OF {schema}.limits_audit \
                 FOR VALUES FROM ('{from}') TO ('{to}')"
            );
            server.sql(&make).unwrap();
        };
        partition("20200101", "2020-01-01 00:00+00", "2020-01-02 00:00+00");
        let young = server
            .sql(
                "SELECT to_char(d, 'YYYYMMDD'), d::date, d::date + 1 \
                 FROM (SELECT now() AT TIME ZONE 'UTC' - interval '6 days' AS d) AS x",
            )
            .unwrap();
        let young: Vec<&str> = young.split('|').collect();
        partition(young[0], &format!("{} 00:00+00", young[1]), &format!("{} 00:00+00", young[2]));
        // A day that cannot be made, because its rows are in the rest already, stops nothing else.
        let stray = format!(
            "DO $$ BEGIN EXECUTE 'DROP TABLE {schema}.limits_audit_' || \
             to_char(now() AT TIME ZONE 'UTC' + interval '3 days', 'YYYYMMDD'); END $$; \
             INSERT INTO {schema}.limits_audit SELECT at + interval '3 days', id, policy, key, \
             cost, verdict, remaining, wait_ms FROM {schema}.limits_audit"
        );
        server.sql(&stray).unwrap();
        store.sweep().await.unwrap();
        let left = format!(
            "SELECT count(*) FILTER (WHERE relname = 'limits_audit_20200101'), \
             count(*) FILTER (WHERE relname = 'limits_audit_{}'), \
             count(*) FILTER (WHERE relname ~ '^limits_audit_[0-9]+$') FROM pg_class \
             WHERE relnamespace = '{schema}'::regnamespace",
            young[0]
        );
        assert_eq!(
            server.sql(&left).unwrap(),
            "0|1|8",
            "old, young, and all but one of the week ahead"
        );
        let rows = format!("SELECT count(*) FROM {schema}.limits_audit");
        assert_eq!(server.sql(&rows).unwrap(), "2");
    });
}
