//! What one case did in one round, and the figure for several rounds.

use std::time::Duration;

use crate::measure::Pick;

/// What a case itself counts.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// Calls that were decided.
    pub(super) decisions: u64,
    /// Calls that failed after too many lost races, or were decided without the store.
    pub(super) undecided: u64,
    /// From the first call to the last answer.
    pub(super) wall: Duration,
    /// Of every call, in nanoseconds. Empty where calls have no latency of their own.
    pub(super) latencies: Vec<u32>,
}

/// One round of one case, with the server's side of it.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) per_second: f64,
    /// 50th, 95th and 99th percentile in microseconds, where calls have a latency of their own.
    pub(super) percentiles: Option<[f64; 3]>,
    /// Microseconds of server CPU per decision.
    pub(super) cpu: f64,
    /// Microseconds of CPU per decision in this process: the client and its callers.
    pub(super) own_cpu: f64,
    /// Script calls per decision.
    pub(super) calls: f64,
    /// The server's own time per script call, in microseconds.
    pub(super) script: f64,
    /// Lost races per decision.
    pub(super) lost: f64,
    /// The share of calls that the store did not decide.
    pub(super) undecided: f64,
    /// The share of the time that one server's main thread ran.
    pub(super) busy: f64,
}

/// What the servers did during a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    pub(super) servers: usize,
    pub(super) cpu_ns: u64,
    /// Of this process, meanwhile.
    pub(super) own_cpu_ns: u64,
    pub(super) script_calls: u64,
    pub(super) script_us: u64,
    pub(super) sets: u64,
}

impl Sample {
    pub(super) fn new(mut run: Run, served: &Served) -> Self {
        let decisions = run.decisions.max(1) as f64;
        Self {
            per_second: run.decisions as f64 / run.wall.as_secs_f64(),
            percentiles: percentiles(&mut run.latencies),
            cpu: served.cpu_ns as f64 / 1e3 / decisions,
            own_cpu: served.own_cpu_ns as f64 / 1e3 / decisions,
            calls: served.script_calls as f64 / decisions,
            script: served.script_us as f64 / served.script_calls.max(1) as f64,
            // An attempt of a race is a read and a swap.
            lost: (served.script_calls / 2).saturating_sub(served.sets) as f64 / decisions,
            undecided: run.undecided as f64 / (run.undecided as f64 + decisions),
            busy: served.cpu_ns as f64
                / 1e9
                / run.wall.as_secs_f64()
                / served.servers.max(1) as f64,
        }
    }
}

fn percentiles(latencies: &mut [u32]) -> Option<[f64; 3]> {
    latencies.sort_unstable();
    let at = |percent: usize| {
        let rank = (latencies.len() * percent).div_ceil(100).max(1);
        latencies.get(rank - 1).map(|nanos| f64::from(*nanos) / 1e3)
    };
    Some([at(50)?, at(95)?, at(99)?])
}

/// The median over rounds.
pub(super) fn median(samples: impl IntoIterator<Item = f64>) -> f64 {
    Pick::Median.of(samples.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_smallest_values_that_cover_their_share() {
        let mut latencies: Vec<u32> = (1..=200).rev().map(|value| value * 1_000).collect();
        assert_eq!(percentiles(&mut latencies), Some([100.0, 190.0, 198.0]));
        assert_eq!(percentiles(&mut [7_000]), Some([7.0; 3]));
        assert_eq!(percentiles(&mut []), None);
    }
}
