//! Timing: one run of one contender, and the figure for several.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use core_affinity::CoreId;

use crate::Result;
use crate::contender::{Path, Table};

/// Runs the checks on one thread per order, all started together.
///
/// Gives nanoseconds of wall time per check, over the checks of all threads, from the first start
/// to the last end.
///
/// # Errors
/// When a check was not answered as the path demands: then the figure would mean nothing.
pub(crate) fn run(
    table: &dyn Table,
    keys: &[String],
    orders: &[Vec<u32>],
    path: Path,
) -> Result<f64> {
    let barrier = Barrier::new(orders.len());
    let cores = cores(orders.len());
    let one_thread = |order: &[u32], core: Option<CoreId>| {
        core.map(core_affinity::set_for_current);
        barrier.wait();
        let start = Instant::now();
        let allowed = table.timed_checks(keys, order);
        (start, Instant::now(), allowed)
    };
    let runs: Vec<(Instant, Instant, u64)> = thread::scope(|scope| {
        let threads: Vec<_> = orders
            .iter()
            .zip(&cores)
            .map(|(order, core)| scope.spawn(|| one_thread(order, *core)))
            .collect();
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        joined.collect::<thread::Result<_>>()
    })
    .map_err(|_| "a thread panicked")?;

    let checks: usize = orders.iter().map(Vec::len).sum();
    let allowed: u64 = runs.iter().map(|run| run.2).sum();
    verify(allowed, checks as u64, path)?;
    let start = runs.iter().map(|run| run.0).min();
    let end = runs.iter().map(|run| run.1).max();
    let wall = end.zip(start).map(|(end, start)| end - start);
    Ok(wall.unwrap_or_default().as_secs_f64() * 1e9 / checks as f64)
}

/// A core for each of several threads: otherwise short runs often share one and do not
/// overlap. A single thread runs where the scheduler puts it.
fn cores(threads: usize) -> Vec<Option<CoreId>> {
    let known = core_affinity::get_core_ids().unwrap_or_default();
    let is_pinned = threads > 1 && known.len() >= threads;
    let core = |thread| known.get(thread).copied().filter(|_| is_pinned);
    (0..threads).map(core).collect()
}

/// Every check allowed, or every check denied, as the path demands.
pub(crate) fn verify(allowed: u64, checks: u64, path: Path) -> Result<()> {
    let expected = if path.is_allowed() { checks } else { 0 };
    if allowed == expected {
        return Ok(());
    }
    let path = path.id();
    Err(format!("{allowed} of {checks} checks were allowed on the {path} path"))
}

/// The order in which `count` contenders run in this round: rotated, so that no contender is always
/// first.
pub(crate) fn rotation(count: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |place| (place + round) % count)
}

/// Which sample stands for all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    /// The middle one.
    Median,
    /// The fastest: the one least disturbed, where others use the machine too.
    Best,
}

impl Pick {
    /// The word in headings.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Median => "Median",
            Self::Best => "Best",
        }
    }

    /// Picks; of an even number, the median is the mean of the two in the middle.
    pub(crate) fn of(self, mut samples: Vec<f64>) -> f64 {
        samples.sort_by(f64::total_cmp);
        let middle = samples.len() / 2;
        match (self, samples.len()) {
            (_, 0) => f64::NAN,
            (Self::Best, _) => samples[0],
            (Self::Median, count) if count % 2 == 1 => samples[middle],
            (Self::Median, _) => f64::midpoint(samples[middle - 1], samples[middle]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_the_middle_or_the_fastest() {
        assert_eq!(Pick::Median.of(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(Pick::Median.of(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(Pick::Best.of(vec![3.0, 1.0, 2.0]), 1.0);
    }

    #[test]
    fn every_contender_is_first_once() {
        let first: Vec<_> = (0..3).map(|round| rotation(3, round).next()).collect();
        assert_eq!(first, [Some(0), Some(1), Some(2)]);
    }
}
