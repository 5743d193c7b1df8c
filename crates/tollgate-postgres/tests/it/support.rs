//! What all tests share: one runtime, stores with tables of their own, and a way to hold a row.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};
use tollgate_core::algorithm::{Anchor, FixedWindow};
use tollgate_core::store::CallContext;
use tollgate_core::{Admission, Charge, Limit, Quota, Result};
use tollgate_postgres::{Config, Postgres};
use tollgate_testkit::helpers;

/// Far more than anything takes on a busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// Runs a future on the one runtime of all tests.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    RUNTIME.block_on(future)
}

/// A schema that no other test uses.
pub(crate) fn schema() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let random = RandomState::new().hash_one((std::process::id(), number));
    format!("t{random:016x}_{number}")
}

/// Settings with tables of their own, and timeouts for a busy machine.
pub(crate) fn config(url: &str) -> Config {
    config_in(url, &schema())
}

pub(crate) fn config_in(url: &str, schema: &str) -> Config {
    let config: Config = url.parse().unwrap();
    let config = config.tables(schema, "limits");
    config.connect_timeout(TEST_TIMEOUT).operation_timeout(TEST_TIMEOUT)
}

/// This many units a month: nothing comes back while a test runs.
pub(crate) fn limit(units: u64) -> Limit {
    policy("test", units)
}

/// The same under another policy.
pub(crate) fn policy(name: &str, units: u64) -> Limit {
    let month = Quota::new(units, Duration::from_secs(30 * 86_400));
    Limit::new(name, FixedWindow::new(month, Anchor::FirstHit).unwrap()).unwrap()
}

/// Charges one unit; whether it was allowed.
pub(crate) async fn take(store: &Postgres, limit: &Limit, key: &str) -> Result<bool> {
    helpers::take(store, limit.charge(key), CallContext::store_clock()).await
}

/// Charges one unit under a request id; whether it was allowed.
pub(crate) async fn take_once(store: &Postgres, charge: Charge<'_>, id: &str) -> Result<bool> {
    helpers::take_once(store, charge, id, CallContext::store_clock()).await
}

pub(crate) async fn admitted(store: &Postgres, admission: &Admission<'_>) -> Result<bool> {
    helpers::admitted(store, admission, CallContext::store_clock()).await
}

/// Units that were spent on a key.
pub(crate) async fn spent(store: &Postgres, limit: &Limit, key: &str) -> u64 {
    helpers::spent(store, limit.charge(key), CallContext::store_clock()).await.unwrap()
}

/// A connection past the store.
pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// How many sessions wait for a lock in this schema.
pub(crate) async fn waiting(client: &Client, schema: &str) -> i64 {
    let query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                 AND query LIKE '%' || $1 || '%'";
    client.query_one(query, &[&schema]).await.unwrap().get(0)
}

/// Polls until a session waits for a lock in this schema.
pub(crate) async fn until_a_session_waits(client: &Client, schema: &str) {
    while waiting(client, schema).await == 0 {
        tokio::task::yield_now().await;
    }
}
