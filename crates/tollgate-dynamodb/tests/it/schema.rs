//! The table: made, made twice, and told from other tables.

use serde_json::{Value, json};
use tollgate_core::Code;
use tollgate_dynamodb::DynamoDb;
use tollgate_test_servers::shared::dynamodb;

use crate::support::{block_on, config, create, limit, open, table, take};

fn describe(operation: &str, table: &str) -> Value {
    dynamodb().call(operation, &json!({"TableName": table})).unwrap()
}

#[test]
fn a_table_is_made_once_billed_by_request_and_cleaned_up_by_itself() {
    let table = table();
    let config = config(&dynamodb().url(&table));
    block_on(async {
        DynamoDb::migrate(config.clone()).await.unwrap();
        let store = open(&dynamodb().url(&table));
        assert!(take(&store, limit(1).charge("a")).await.unwrap());
        DynamoDb::migrate(config.clone()).await.unwrap();
        assert!(!take(&store, limit(1).charge("a")).await.unwrap(), "the table was made again");
        assert_eq!(DynamoDb::inspect(config).await.unwrap(), [""; 0]);
    });
    let described = describe("DescribeTable", &table);
    assert_eq!(described["Table"]["BillingModeSummary"]["BillingMode"], "PAY_PER_REQUEST");
    let described = describe("DescribeTimeToLive", &table);
    assert_eq!(described["TimeToLiveDescription"]["AttributeName"], "expires");
    assert_eq!(described["TimeToLiveDescription"]["TimeToLiveStatus"], "ENABLED");
}

#[test]
fn processes_that_migrate_at_once_agree() {
    let config = config(&dynamodb().url(&table()));
    block_on(async {
        let migrations = (0..8).map(|_| DynamoDb::migrate(config.clone()));
        for migrated in tollgate_testkit::runtime::join_all(migrations).await {
            migrated.unwrap();
        }
    });
}

#[test]
fn other_tables_are_left_alone() {
    block_on(async {
        for (key, kind) in [("id", "S"), ("key", "N")] {
            let table = table();
            create(dynamodb(), &table, key, kind);
            let config = config(&dynamodb().url(&table));
            let error = DynamoDb::migrate(config.clone()).await.unwrap_err();
            assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("table")));
            assert!(DynamoDb::inspect(config).await.is_err());
        }
        let by_another = table();
        create(dynamodb(), &by_another, "key", "S");
        let time_to_live = json!({"Enabled": true, "AttributeName": "gone"});
        let body = json!({"TableName": by_another, "TimeToLiveSpecification": time_to_live});
        dynamodb().call("UpdateTimeToLive", &body).unwrap();
        let error = DynamoDb::migrate(config(&dynamodb().url(&by_another))).await.unwrap_err();
        assert_eq!(error.field(), Some("table"), "{error}");
    });
}

#[test]
fn a_table_that_keeps_everything_is_warned_about() {
    block_on(async {
        let table = table();
        create(dynamodb(), &table, "key", "S");
        let config = config(&dynamodb().url(&table));
        let warnings = DynamoDb::inspect(config.clone()).await.unwrap();
        assert!(matches!(&warnings[..], [one] if one.contains("expires")), "{warnings:?}");
        DynamoDb::migrate(config.clone()).await.unwrap();
        assert_eq!(DynamoDb::inspect(config).await.unwrap(), [""; 0]);
    });
}

#[test]
fn a_table_that_is_missing_is_named() {
    block_on(async {
        let config = config(&dynamodb().url(&table()));
        let error = DynamoDb::inspect(config).await.unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("table")), "{error}");
    });
}

#[test]
fn connecting_verifies_the_table() {
    block_on(async {
        let missing = dynamodb().url(&table());
        assert!(DynamoDb::open(config(&missing)).is_ok(), "opening does not wait");
        let error = DynamoDb::connect(config(&missing)).await.unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("table")), "{error}");
        DynamoDb::migrate(config(&missing)).await.unwrap();
        assert!(DynamoDb::connect(config(&missing)).await.is_ok());
    });
}
