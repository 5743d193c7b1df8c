//! What DynamoDB refuses and emulators do not: throttling, transactions in the way, failures in the
//! middle. The refusals come from a gateway; everything else is the server's doing.

use std::time::Duration;

use serde_json::json;
use tollgate_core::{Admission, Code, Limiter, OutageMode};
use tollgate_dynamodb::DynamoDb;
use tollgate_test_servers::shared::dynamodb;
use tollgate_test_servers::{DynamoDbGateway, Refusal};

use crate::support::{admitted, block_on, config, fresh, limit, spent, table, take, take_once};

const THROTTLED: [&str; 3] =
    ["ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded"];

fn gateway() -> DynamoDbGateway {
    DynamoDbGateway::to(dynamodb().addr()).unwrap()
}

#[test]
fn throttling_that_passes_is_waited_for() {
    let gateway = gateway();
    block_on(async {
        let store = fresh(&gateway.url(&table())).await;
        let many = limit(1_000);
        for code in THROTTLED {
            for operation in ["GetItem", "PutItem", "PutItem"] {
                gateway.refuse(operation, Refusal::new(400, code));
            }
            assert!(take(&store, many.charge(code)).await.unwrap());
            assert_eq!(spent(&store, &many, code).await, 1);
        }
        let pair = [many.charge("x"), many.charge("y")];
        gateway.refuse("BatchGetItem", Refusal::new(400, "ThrottlingException"));
        gateway.refuse("TransactWriteItems", Refusal::cancelled(&["ThrottlingError", "None"]));
        gateway.refuse("TransactWriteItems", Refusal::new(400, "TransactionInProgressException"));
        assert!(admitted(&store, &Admission::of(&pair)).await.unwrap());
        assert_eq!(spent(&store, &many, "y").await, 1);
    });
}

#[test]
fn unprocessed_keys_are_requested_again() {
    let gateway = gateway();
    block_on(async {
        let table = table();
        let store = fresh(&gateway.url(&table)).await;
        let many = limit(1_000);
        let keys: Vec<_> =
            ["x", "y"].map(|key| json!({"key": {"S": many.key(key).to_text()}})).into();
        let unprocessed = json!({"Responses": {}, "UnprocessedKeys": {table: {"Keys": keys}}});
        assert!(take(&store, many.charge("x")).await.unwrap());
        let pair = [many.charge("x"), many.charge("y")];
        gateway.refuse("BatchGetItem", Refusal::with_body(200, unprocessed));
        assert!(admitted(&store, &Admission::of(&pair)).await.unwrap());
        assert_eq!((spent(&store, &many, "x").await, spent(&store, &many, "y").await), (2, 1));
    });
}

/// An attacker can cause it by sending many requests, so it must never admit.
#[test]
fn throttling_that_stays_is_no_outage_and_charges_nothing() {
    let gateway = gateway();
    block_on(async {
        let url = gateway.url(&table());
        let with_long_timeouts = fresh(&url).await;
        let brief = config(&url).operation_timeout(Duration::from_millis(200));
        let limiter = Limiter::new(DynamoDb::open(brief).unwrap());
        let open = limit(1_000).on_outage(OutageMode::Open);
        for _ in 0..1_000 {
            gateway.refuse("PutItem", Refusal::new(400, "ThrottlingException"));
        }
        let store = limiter.store();
        let error = take(store, open.charge("a")).await.unwrap_err();
        assert_eq!(error.code(), Code::QueueFull, "{error}");
        assert_eq!(spent(&with_long_timeouts, &open, "a").await, 0);
    });
}

#[test]
fn a_transaction_in_the_way_is_a_lost_race() {
    let gateway = gateway();
    block_on(async {
        let store = fresh(&gateway.url(&table())).await;
        let many = limit(1_000);
        for _ in 0..3 {
            gateway.refuse("PutItem", Refusal::new(400, "TransactionConflictException"));
            let conflict = Refusal::cancelled(&["None", "TransactionConflict"]);
            gateway.refuse("TransactWriteItems", conflict);
        }
        assert!(take(&store, many.charge("a")).await.unwrap());
        assert!(take_once(&store, many.charge("a"), "id").await.unwrap());
        assert_eq!(spent(&store, &many, "a").await, 2);
        let tally = gateway.take_tally();
        assert_eq!((tally.of("PutItem"), tally.of("TransactWriteItems")), (4, 4));
        // More of it than there are attempts.
        for _ in 0..30 {
            gateway.refuse("PutItem", Refusal::new(400, "TransactionConflictException"));
        }
        let error = take(&store, many.charge("b")).await.unwrap_err();
        assert_eq!(error.code(), Code::ConflictExhausted, "{error}");
        assert_eq!(spent(&store, &many, "b").await, 0);
    });
}

/// The write was applied or not, and the answer is the same: asking once more tells which.
#[test]
fn a_failure_in_the_middle_of_a_write_is_cleared_up() {
    let gateway = gateway();
    block_on(async {
        let store = fresh(&gateway.url(&table())).await;
        let many = limit(1_000);
        let mut expected = 0;
        for operation in ["PutItem", "TransactWriteItems"] {
            for status in [500, 503] {
                for refusal in [
                    Refusal::new(status, "InternalServerError"),
                    Refusal::new(status, "InternalServerError").after_the_fact(),
                ] {
                    gateway.refuse(operation, refusal);
                    let id = expected.to_string();
                    let is_allowed = match operation {
                        "PutItem" => take(&store, many.charge("a")).await,
                        _ => take_once(&store, many.charge("a"), &id).await,
                    };
                    assert!(is_allowed.unwrap());
                    expected += 1;
                    assert_eq!(spent(&store, &many, "a").await, expected, "{operation} {status}");
                }
            }
        }
    });
}

/// Applied, its answer lost, and overwritten by another process before the outcome could be read.
#[test]
fn what_cannot_be_cleared_up_is_an_outage_and_never_charged_again() {
    let gateway = gateway();
    block_on(async {
        let url = gateway.url(&table());
        let (store, other) = (fresh(&url).await, fresh(&url).await);
        let many = limit(1_000);
        assert!(take(&store, many.charge("a")).await.unwrap());
        let lost = || Refusal::new(500, "InternalServerError").after_the_fact();
        gateway.refuse("PutItem", lost());
        // The second copy is lost as well: it stays unknown.
        gateway.refuse("PutItem", lost());
        let error = take(&store, many.charge("a")).await.unwrap_err();
        assert!(error.is_outage() && !error.is_not_sent(), "{error}");
        assert_eq!(spent(&other, &many, "a").await, 2);
    });
}

#[test]
fn what_is_set_up_otherwise_never_fails_open() {
    let gateway = gateway();
    block_on(async {
        let store = fresh(&gateway.url(&table())).await;
        let open = limit(1_000).on_outage(OutageMode::Open);
        let limiter = Limiter::builder(store).deadline(Duration::from_secs(60)).build();
        for code in ["AccessDeniedException", "ValidationException", "UnrecognizedClientException"]
        {
            gateway.refuse("GetItem", Refusal::new(400, code));
            let error = limiter.check(open.charge("a")).await.unwrap_err();
            assert_eq!(error.code(), Code::ConfigInvalid, "{error}");
            assert!(error.message().contains(code), "{error}");
        }
        let missing = DynamoDb::open(config(&gateway.url(&table()))).unwrap();
        let error = take(&missing, open.charge("a")).await.unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("table")), "{error}");
    });
}
