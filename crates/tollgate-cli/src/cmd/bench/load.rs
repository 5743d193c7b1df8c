//! The load: connections that send requests when they are due, and count the results.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_proto::tollgate_v1::Verdict;

use super::connection::{Connection, Template};
use super::schedule::Schedule;
use super::totals::Totals;
use crate::cmd::Failed;

/// How long a response may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long requests that were due are still sent after the duration.
const GRACE: Duration = Duration::from_secs(1);

/// A running load.
pub(super) struct Load {
    pub(super) schedule: Arc<Schedule>,
    pub(super) keys: Arc<Keys>,
    totals: Vec<Arc<Mutex<Totals>>>,
    workers: JoinSet<()>,
}

/// The keys, used in turn, and the number of admissions of each by the store.
#[derive(Debug)]
pub(super) struct Keys {
    names: Vec<String>,
    granted: Vec<AtomicU64>,
}

impl Keys {
    pub(super) fn new(names: Vec<String>) -> Self {
        let granted = names.iter().map(|_| AtomicU64::new(0)).collect();
        Self { names, granted }
    }

    /// The key of a request.
    fn of(&self, index: u64) -> (&str, Option<&AtomicU64>) {
        let count = u64::try_from(self.names.len()).unwrap_or(u64::MAX).max(1);
        let index = usize::try_from(index % count).unwrap_or_default();
        (self.names.get(index).map_or("", String::as_str), self.granted.get(index))
    }

    pub(super) const fn count(&self) -> usize {
        self.names.len()
    }

    /// Admissions of the key with the most, and of all keys.
    pub(super) fn granted(&self) -> (u64, u64) {
        let each = || self.granted.iter().map(|granted| granted.load(Ordering::Relaxed));
        (each().max().unwrap_or_default(), each().sum())
    }
}

impl Load {
    /// Opens the connections, then starts to send.
    pub(super) async fn start(template: &Arc<Template>, keys: Keys) -> Result<Self, Failed> {
        let bench = &template.bench;
        let mut open = Vec::new();
        for _ in 0..bench.connections {
            open.push(Connection::connect(template).await?);
        }
        let (keys, schedule) =
            (Arc::new(keys), Schedule::start(bench.rate, bench.duration, open.len()));
        let (mut totals, mut workers) = (Vec::new(), JoinSet::new());
        for connection in open {
            let own = Arc::new(Mutex::new(Totals::new()?));
            totals.push(Arc::clone(&own));
            let shared = (Arc::clone(template), Arc::clone(&keys), Arc::clone(&schedule));
            workers.spawn(work(connection, shared, own));
        }
        Ok(Self { schedule, keys, totals, workers })
    }

    /// Waits until every request has its result, or the grace period is over. May be dropped and
    /// called again.
    pub(super) async fn finish(&mut self, duration: Duration) {
        let left = (duration + GRACE).saturating_sub(self.schedule.elapsed());
        let all = async { while self.workers.join_next().await.is_some() {} };
        if tokio::time::timeout(left, all).await.is_err() {
            self.schedule.stop();
            while self.workers.join_next().await.is_some() {}
        }
    }

    /// The results of all connections so far.
    pub(super) fn totals(&self) -> Result<Totals, Failed> {
        let mut sum = Totals::new()?;
        for totals in &self.totals {
            sum.add(&locked(totals))?;
        }
        Ok(sum)
    }
}

fn locked(totals: &Mutex<Totals>) -> MutexGuard<'_, Totals> {
    totals.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends requests until the end. After a failure it reconnects: the next reply of the connection
/// may belong to the failed request.
async fn work(
    connection: Connection,
    (template, keys, schedule): (Arc<Template>, Arc<Keys>, Arc<Schedule>),
    totals: Arc<Mutex<Totals>>,
) {
    let mut connection = Some(connection);
    while let Some((index, due)) = schedule.next().await {
        let (key, granted) = keys.of(index);
        let acquiring = async {
            let mut open = match connection.take() {
                Some(open) => open,
                None => Connection::connect(&template).await?,
            };
            let outcome = open.acquire(&template, key).await?;
            Ok::<_, Failed>((open, outcome))
        };
        match tokio::time::timeout(RESPONSE_TIMEOUT, acquiring).await {
            Ok(Ok((open, outcome))) => {
                connection = Some(open);
                let allowed = outcome.verdict == Verdict::Allowed;
                if let (Some(granted), true, false) = (granted, allowed, outcome.degraded) {
                    granted.fetch_add(1, Ordering::Relaxed);
                }
                locked(&totals).decided_after(outcome, due.elapsed());
            }
            Ok(Err(error)) => locked(&totals).failed(error.to_string()),
            Err(_) => locked(&totals).failed("timeout".to_owned()),
        }
    }
}
