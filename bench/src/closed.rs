//! A closed loop: callers, each of which calls again as soon as it has its answer.

use std::time::{Duration, Instant};

use crate::Result;
use crate::usage::Usage;

/// What the callers did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loop {
    /// Calls that were decided.
    pub(crate) calls: u64,
    /// Calls that were given up.
    pub(crate) failed: u64,
    /// From the first call to the last answer.
    pub(crate) seconds: f64,
    /// The time that the threads of this process ran, in nanoseconds.
    pub(crate) own_cpu_ns: u64,
    /// Of every call, in nanoseconds, sorted.
    latencies: Vec<u32>,
}

impl Loop {
    /// Calls per second.
    pub(crate) fn per_second(&self) -> f64 {
        self.calls as f64 / self.seconds.max(1e-9)
    }

    /// A latency in milliseconds: the smallest that covers this share of the calls.
    pub(crate) fn millis(&self, percent: usize) -> f64 {
        let rank = (self.latencies.len() * percent).div_ceil(100).max(1);
        self.latencies.get(rank - 1).map_or(f64::NAN, |nanos| f64::from(*nanos) / 1e6)
    }
}

/// Runs callers for this long. `make` makes one from its number, and a caller makes a call from
/// the number of the call. A call returns whether it was decided; one that was given up has no
/// latency.
///
/// # Errors
/// When a call fails: then the figures would mean nothing.
pub(crate) async fn run<F, A>(
    callers: usize,
    time: Duration,
    make: impl Fn(usize) -> F,
) -> Result<Loop>
where
    F: FnMut(u64) -> A + Send + 'static,
    A: Future<Output = Result<bool>> + Send + 'static,
{
    let usage = Usage::own();
    let (before, start) = (usage.cpu_ns()?, Instant::now());
    let end = start + time;
    let tasks = (0..callers).map(|number| tokio::spawn(one(make(number), end)));
    let mut all = Loop::default();
    for task in tasks.collect::<Vec<_>>() {
        let (latencies, failed) = task.await.map_err(|error| error.to_string())??;
        all.latencies.extend(latencies);
        all.failed += failed;
    }
    all.seconds = start.elapsed().as_secs_f64();
    all.own_cpu_ns = usage.cpu_ns()?.saturating_sub(before);
    all.calls = all.latencies.len() as u64;
    all.latencies.sort_unstable();
    Ok(all)
}

async fn one<F, A>(mut call: F, end: Instant) -> Result<(Vec<u32>, u64)>
where
    F: FnMut(u64) -> A,
    A: Future<Output = Result<bool>>,
{
    let (mut latencies, mut failed) = (Vec::new(), 0);
    let mut before = Instant::now();
    for number in 0.. {
        if before >= end {
            break;
        }
        let decided = call(number).await?;
        let after = Instant::now();
        match decided {
            true => latencies.push(u32::try_from((after - before).as_nanos()).unwrap_or(u32::MAX)),
            false => failed += 1,
        }
        before = after;
    }
    Ok((latencies, failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_caller_calls_until_the_end() {
        let time = Duration::from_millis(5);
        let done = run(3, time, |_| {
            |_| async {
                tokio::task::yield_now().await;
                Ok(true)
            }
        })
        .await;
        let done = done.unwrap();
        assert!(done.calls >= 3 && done.seconds >= 0.005);
        assert!(done.millis(50) <= done.millis(99));
        let failed = run(1, time, |_| |_| async { Err("no".to_owned()) }).await;
        assert_eq!(failed.unwrap_err(), "no");
    }
}
