//! The load: connections that send what is due, and note when it was answered.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_proto::tollgate_v1::Verdict;

use super::pace::Pace;
use super::tally::Tally;
use super::wire::{Asking, Problem, Wire};
use crate::cmd::Failed;

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long requests that were due are still sent after the end.
const GRACE: Duration = Duration::from_secs(1);

/// A load that runs.
pub(super) struct Load {
    pub(super) pace: Arc<Pace>,
    pub(super) keys: Arc<Keys>,
    tallies: Vec<Arc<Mutex<Tally>>>,
    workers: JoinSet<()>,
}

/// The keys that are asked for in turn, and what each was granted by the store.
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
        let place = usize::try_from(index % count).unwrap_or_default();
        (self.names.get(place).map_or("", String::as_str), self.granted.get(place))
    }

    pub(super) const fn count(&self) -> usize {
        self.names.len()
    }

    /// Admissions of the key that got most, and of all.
    pub(super) fn granted(&self) -> (u64, u64) {
        let each = || self.granted.iter().map(|granted| granted.load(Ordering::Relaxed));
        (each().max().unwrap_or_default(), each().sum())
    }
}

impl Load {
    /// Connects, then starts to send.
    pub(super) async fn start(
        asking: &Arc<Asking>,
        keys: Keys,
        connections: u64,
        (rate, duration): (u64, Duration),
    ) -> Result<Self, Failed> {
        let mut wires = Vec::new();
        for _ in 0..connections {
            let wire = Wire::connect(asking).await;
            wires.push(wire.map_err(|problem| -> Failed { problem })?);
        }
        let (keys, pace) = (Arc::new(keys), Pace::start(rate, duration, wires.len()));
        let (mut tallies, mut workers) = (Vec::new(), JoinSet::new());
        for wire in wires {
            let tally = Arc::new(Mutex::new(Tally::new()?));
            tallies.push(Arc::clone(&tally));
            let shared = (Arc::clone(asking), Arc::clone(&keys), Arc::clone(&pace));
            workers.spawn(work(wire, shared, tally));
        }
        Ok(Self { pace, keys, tallies, workers })
    }

    /// Waits until everything is answered, or what is left is given up. May be dropped and called
    /// again.
    pub(super) async fn finish(&mut self, duration: Duration) {
        let left = (duration + GRACE).saturating_sub(self.pace.elapsed());
        let all = async { while self.workers.join_next().await.is_some() {} };
        if tokio::time::timeout(left, all).await.is_err() {
            self.pace.stop();
            while self.workers.join_next().await.is_some() {}
        }
    }

    /// What became of all requests so far.
    pub(super) fn so_far(&self) -> Result<Tally, Failed> {
        let mut sum = Tally::new()?;
        for tally in &self.tallies {
            sum.add(&locked(tally))?;
        }
        Ok(sum)
    }
}

fn locked(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends what is due until nothing is. After a failure it connects anew: nobody knows what a
/// connection that failed would say next.
async fn work(
    wire: Wire,
    (asking, keys, pace): (Arc<Asking>, Arc<Keys>, Arc<Pace>),
    tally: Arc<Mutex<Tally>>,
) {
    let mut wire = Some(wire);
    while let Some((index, due)) = pace.next().await {
        let (key, granted) = keys.of(index);
        let asked = async {
            let mut open = match wire.take() {
                Some(wire) => wire,
                None => Wire::connect(&asking).await?,
            };
            let answer = open.ask(&asking, key).await?;
            Ok::<_, Problem>((open, answer))
        };
        match tokio::time::timeout(ANSWER_WITHIN, asked).await {
            Ok(Ok((open, answer))) => {
                wire = Some(open);
                let allowed = answer.verdict == Verdict::Allowed;
                if let (Some(granted), true, false) = (granted, allowed, answer.degraded) {
                    granted.fetch_add(1, Ordering::Relaxed);
                }
                locked(&tally).answered(answer, due.elapsed());
            }
            Ok(Err(error)) => locked(&tally).failed(error.to_string()),
            Err(_) => locked(&tally).failed("no answer in time".to_owned()),
        }
    }
}
