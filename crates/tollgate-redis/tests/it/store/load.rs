//! Callers that ask for one unit after another until they are denied.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Limit, Quota, algorithm as a};
use tollgate_redis::Redis;
use tollgate_testkit::derive::decisions_of;

use super::RUNTIME;

/// How long anything may take at all.
pub(super) const SOON: Duration = Duration::from_secs(60);

/// What has happened so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) admitted: AtomicU64,
    pub(super) failed: AtomicU64,
    /// Calls that may or may not have been charged.
    pub(super) unknown: AtomicU64,
    stop: AtomicBool,
}

/// Callers at work.
pub(super) struct Load {
    pub(super) tally: Arc<Tally>,
    tasks: Vec<JoinHandle<()>>,
}

/// This many units that do not come back while a test runs.
pub(super) fn month(prefix: &str, units: u64) -> Limit {
    let gcra = a::Gcra::new(Quota::new(units, Duration::from_secs(30 * 86_400))).unwrap();
    Limit::new("load", gcra).unwrap().with_prefix(prefix).unwrap()
}

impl Load {
    /// Starts `callers` that each go on until they are denied, whatever fails in between.
    pub(super) fn start(store: &Redis, limit: &Limit, callers: usize) -> Self {
        let tally = Arc::new(Tally::default());
        let tasks = (0..callers)
            .map(|_| RUNTIME.spawn(one(store.clone(), limit.clone(), tally.clone())))
            .collect();
        Self { tally, tasks }
    }

    pub(super) fn admitted(&self) -> u64 {
        self.tally.admitted.load(Ordering::SeqCst)
    }

    /// Waits until more than `admitted` were: how long that took.
    pub(super) fn wait_beyond(&self, admitted: u64) -> Duration {
        let from = Instant::now();
        while self.admitted() <= admitted {
            assert!(from.elapsed() < SOON, "stuck at {} of {admitted}", self.admitted());
            std::thread::yield_now();
        }
        from.elapsed()
    }

    /// Waits until every caller was denied.
    pub(super) fn finish(self) -> Arc<Tally> {
        let all = async {
            for task in self.tasks {
                task.await.unwrap();
            }
        };
        if super::run(async { tokio::time::timeout(SOON, all).await }).is_err() {
            self.tally.stop.store(true, Ordering::SeqCst);
            panic!("not every caller was denied in time: {:?}", self.tally);
        }
        self.tally
    }
}

async fn one(store: Redis, limit: Limit, tally: Arc<Tally>) {
    let charges = [limit.charge("shared")];
    let admission = Admission::of(&charges);
    while !tally.stop.load(Ordering::SeqCst) {
        match store.admit(&admission, CallContext::store_clock()).await {
            Ok(outcome) if decisions_of(&admission, &outcome).unwrap().admitted => {
                tally.admitted.fetch_add(1, Ordering::SeqCst);
            }
            Ok(_) => return,
            Err(error) => {
                tally.failed.fetch_add(1, Ordering::SeqCst);
                tally.unknown.fetch_add(u64::from(!error.is_not_sent()), Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        }
    }
}
