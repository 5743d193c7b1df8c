//! Many concurrent callers, each of which waits for its reply before its next call.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::latency;
use super::sample::Run;
use crate::Result;

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Decided,
    /// Failed after too many lost races, or was decided without the store.
    Undecided,
}

/// One caller.
pub(super) trait Caller: Send + 'static {
    /// Makes one call.
    fn call(&mut self) -> impl Future<Output = Result<Said>> + Send;
}

/// Runs all callers for this long.
///
/// # Errors
/// When a call failed: then the figures would mean nothing.
pub(super) fn run<C: Caller>(
    runtime: &Runtime,
    callers: &mut Vec<C>,
    time: Duration,
) -> Result<Run> {
    runtime.block_on(async {
        let start = Instant::now();
        let tasks: Vec<_> =
            callers.drain(..).map(|caller| tokio::spawn(one(caller, start + time))).collect();
        let mut all = Run::default();
        for task in tasks {
            let (caller, decided, undecided) = task.await.map_err(|error| error.to_string())??;
            callers.push(caller);
            all.decisions += decided;
            all.undecided += undecided;
        }
        all.wall = start.elapsed();
        all.latencies = latency::take();
        Ok(all)
    })
}

/// A caller on its own.
#[expect(clippy::manual_async_fn, reason = "an `async fn` would hold its arguments twice")]
fn one<C: Caller>(
    mut caller: C,
    end: Instant,
) -> impl Future<Output = Result<(C, u64, u64)>> + Send {
    async move {
        let (mut decided, mut undecided) = (0, 0);
        let mut before = Instant::now();
        while before < end {
            match caller.call().await? {
                Said::Decided => decided += 1,
                Said::Undecided => undecided += 1,
            }
            let after = Instant::now();
            latency::note(after - before);
            before = after;
        }
        Ok((caller, decided, undecided))
    }
}
