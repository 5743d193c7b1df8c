//! What all tests share: files of their own, stores with long timeouts, and the operations of a
//! limiter.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use rusqlite::Connection;
use tollgate_core::algorithm::{Anchor, FixedWindow};
use tollgate_core::store::CallContext;
use tollgate_core::{Admission, Charge, Limit, Micros, Quota, Result};
use tollgate_sqlite::{Config, Sqlite};
use tollgate_test_servers::Folder;
use tollgate_testkit::helpers;

pub(crate) use tollgate_testkit::runtime::{block_on, join_all};

/// Far more than anything takes on a busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Nothing comes back while a test runs, so that one instant will do for all of it.
pub(crate) const NOW: Micros = 1_800_000_000_000_000;
pub(crate) const SECOND: Micros = 1_000_000;

/// A file that no other test uses, and that goes with the folder.
pub(crate) fn file() -> (Folder, PathBuf) {
    let folder = Folder::new("sqlite").unwrap();
    let path = folder.path().join("limits.db");
    (folder, path)
}

/// Settings for a file, with timeouts for a busy machine.
pub(crate) fn config(path: &Path) -> Config {
    Config::new(path).lock_timeout(TEST_TIMEOUT)
}

/// A store whose file is open, with these settings.
pub(crate) fn connect(config: Config) -> Sqlite {
    block_on(Sqlite::connect(config)).unwrap()
}

pub(crate) fn open(path: &Path) -> Sqlite {
    connect(config(path))
}

/// A connection past the store.
pub(crate) fn sql(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(TEST_TIMEOUT).unwrap();
    connection
}

/// This many units a month.
pub(crate) fn limit(units: u64) -> Limit {
    policy("test", units)
}

/// The same under another policy.
pub(crate) fn policy(name: &str, units: u64) -> Limit {
    let month = Quota::new(units, Duration::from_secs(30 * 86_400));
    Limit::new(name, FixedWindow::new(month, Anchor::FirstHit).unwrap()).unwrap()
}

/// Charges one unit; whether it was allowed.
pub(crate) async fn take(store: &Sqlite, limit: &Limit, key: &str) -> Result<bool> {
    helpers::take(store, limit.charge(key), CallContext::at(NOW)).await
}

/// Charges one unit under a request id; whether it was allowed.
pub(crate) async fn take_once(store: &Sqlite, charge: Charge<'_>, id: &str) -> Result<bool> {
    helpers::take_once(store, charge, id, CallContext::at(NOW)).await
}

pub(crate) async fn admitted(
    store: &Sqlite,
    admission: &Admission<'_>,
    now: Micros,
) -> Result<bool> {
    helpers::admitted(store, admission, CallContext::at(now)).await
}

/// Units that were spent on a key.
pub(crate) async fn spent(store: &Sqlite, limit: &Limit, key: &str) -> u64 {
    helpers::spent(store, limit.charge(key), CallContext::at(NOW)).await.unwrap()
}

/// Polls once, so that what is asked is queued.
pub(crate) async fn start<F: Future>(future: Pin<&mut F>) {
    let mut future = Some(future);
    std::future::poll_fn(|context| {
        if let Some(future) = future.take() {
            assert!(future.poll(context).is_pending());
        }
        Poll::Ready(())
    })
    .await;
}
