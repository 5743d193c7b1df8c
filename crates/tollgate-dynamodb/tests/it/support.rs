//! What all tests share: one runtime, tables of their own, and stores with long timeouts.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Runtime;
use tollgate_core::algorithm::{Anchor, FixedWindow};
use tollgate_core::store::CallContext;
use tollgate_core::{Admission, Charge, Clock, Limit, Micros, Quota, Result, SystemClock};
use tollgate_dynamodb::{Config, DynamoDb};
use tollgate_testkit::helpers;

/// Far more than anything takes on a busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
});

/// Runs a future on the one runtime of all tests.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    RUNTIME.block_on(future)
}

/// The name of a table that no other test uses.
pub(crate) fn table() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let random = RandomState::new().hash_one((std::process::id(), number));
    format!("t{random:016x}-{number}")
}

/// Settings with timeouts for a busy machine.
pub(crate) fn config(url: &str) -> Config {
    let config: Config = url.parse().unwrap();
    let config = config.credentials("test", "test");
    config.connect_timeout(TEST_TIMEOUT).operation_timeout(TEST_TIMEOUT)
}

/// Makes a table past the store, with this key and without anything that removes items.
pub(crate) fn create(server: &tollgate_test_servers::DynamoDb, table: &str, key: &str, kind: &str) {
    let body = json!({
        "TableName": table,
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": kind}],
        "KeySchema": [{"AttributeName": key, "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
    });
    server.call("CreateTable", &body).unwrap();
}

/// A store over a table that is there.
pub(crate) fn open(url: &str) -> DynamoDb {
    DynamoDb::open(config(url)).unwrap()
}

/// A store over a table that is made now.
pub(crate) async fn fresh(url: &str) -> DynamoDb {
    DynamoDb::migrate(config(url)).await.unwrap();
    open(url)
}

/// This many units a month: nothing comes back while a test runs.
pub(crate) fn limit(units: u64) -> Limit {
    let month = Quota::new(units, Duration::from_secs(30 * 86_400));
    Limit::new("test", FixedWindow::new(month, Anchor::FirstHit).unwrap()).unwrap()
}

pub(crate) fn now() -> Micros {
    static CLOCK: LazyLock<SystemClock> = LazyLock::new(SystemClock::new);
    CLOCK.now()
}

/// Charges one unit; whether it was allowed.
pub(crate) async fn take(store: &DynamoDb, charge: Charge<'_>) -> Result<bool> {
    helpers::take(store, charge, CallContext::at(now())).await
}

/// Charges one unit under a request id; whether it was allowed.
pub(crate) async fn take_once(store: &DynamoDb, charge: Charge<'_>, id: &str) -> Result<bool> {
    helpers::take_once(store, charge, id, CallContext::at(now())).await
}

pub(crate) async fn admitted(store: &DynamoDb, admission: &Admission<'_>) -> Result<bool> {
    helpers::admitted(store, admission, CallContext::at(now())).await
}

/// Units that were spent on a key.
pub(crate) async fn spent(store: &DynamoDb, limit: &Limit, key: &str) -> u64 {
    helpers::spent(store, limit.charge(key), CallContext::at(now())).await.unwrap()
}
