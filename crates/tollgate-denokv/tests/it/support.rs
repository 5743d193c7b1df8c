//! What all tests share: one runtime, stores with long timeouts, and keys of their own on a shared
//! server.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate_core::algorithm::{Anchor, FixedWindow};
use tollgate_core::store::{CallContext, Retries};
use tollgate_core::{Admission, Charge, Limit, Micros, Quota, Result};
use tollgate_denokv::{Config, DenoKv};
use tollgate_testkit::helpers;

pub(crate) use tollgate_testkit::runtime::join_all;

/// Far more than anything takes on a busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Nothing comes back while a test runs, so that one instant will do for all of it.
pub(crate) const NOW: Micros = 1_800_000_000_000_000;
pub(crate) const SECOND: Micros = 1_000_000;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// Runs a future on the one runtime of all tests.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    RUNTIME.block_on(future)
}

/// Settings with timeouts for a busy machine. The server deletes nothing: the readings of
/// tests are not its own.
pub(crate) fn config(url: &str) -> Config {
    let config: Config = url.parse().unwrap();
    let config = config.connect_timeout(TEST_TIMEOUT).operation_timeout(TEST_TIMEOUT);
    config.retries(Retries::default().max_retries(1_000)).keeps_for_ever()
}

pub(crate) fn open(url: &str) -> DenoKv {
    DenoKv::open(config(url)).unwrap()
}

/// A name that no other test uses.
pub(crate) fn name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let random = RandomState::new().hash_one((std::process::id(), number));
    format!("t{random:016x}-{number}")
}

/// This many units a month, with keys of its own.
pub(crate) fn limit(units: u64) -> Limit {
    let month = Quota::new(units, Duration::from_secs(30 * 86_400));
    Limit::new(&name(), FixedWindow::new(month, Anchor::FirstHit).unwrap()).unwrap()
}

/// Charges one unit; whether it was allowed.
pub(crate) async fn take(store: &DenoKv, limit: &Limit, key: &str) -> Result<bool> {
    helpers::take(store, limit.charge(key), CallContext::at(NOW)).await
}

/// Charges one unit under a request id; whether it was allowed.
pub(crate) async fn take_once(store: &DenoKv, charge: Charge<'_>, id: &str) -> Result<bool> {
    helpers::take_once(store, charge, id, CallContext::at(NOW)).await
}

pub(crate) async fn admitted(
    store: &DenoKv,
    admission: &Admission<'_>,
    now: Micros,
) -> Result<bool> {
    helpers::admitted(store, admission, CallContext::at(now)).await
}

/// Units that were spent on a key.
pub(crate) async fn spent(store: &DenoKv, limit: &Limit, key: &str) -> u64 {
    helpers::spent(store, limit.charge(key), CallContext::at(NOW)).await.unwrap()
}
