//! What happened beyond plain decisions: counters, and a hook for logs and metrics.

use core::fmt::Debug;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::decision::OutageMode;
use crate::error::Code;
use crate::time::Micros;

/// Receives events for operators: at most one per second and kind.
pub trait Observer: Debug + Send + Sync {
    /// Decisions were made without the store.
    fn degraded(&self, event: &Degradation<'_>) {
        let _ = event;
    }

    /// This clock is behind one that charged a key: the key is frozen until time catches up.
    /// `behind_ms` is how far, at least; `reset` is the cure. Where charges are settled for more
    /// than they took, schedules report what no debt explains.
    fn clock_behind(&self, policy: &str, behind_ms: u64) {
        let _ = (policy, behind_ms);
    }
}

/// Decisions that were made without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Degradation<'a> {
    /// How they were made.
    pub mode: OutageMode,
    /// Why the store could not answer the last time.
    pub code: Code,
    /// The reason in words: which server, and what it did. No key and no secret.
    pub reason: &'a str,
    /// How many there were since the last event.
    pub decisions: u64,
}

/// How often things happened since the limiter was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Decisions admitted without the store.
    pub degraded_open: u64,
    /// Decisions refused without the store.
    pub degraded_closed: u64,
    /// Decisions made by this process alone.
    pub degraded_local: u64,
    /// Calls that the store did not answer.
    pub store_failures: u64,
    /// Calls that were not made because the breaker was open.
    pub breaker_rejections: u64,
    /// Decisions on keys that a clock ahead of this one had charged.
    pub clock_behind: u64,
}

/// An event that is always counted and reported at most once per second.
#[derive(Debug, Default)]
pub(super) struct Counter {
    total: AtomicU64,
    reported: AtomicU64,
    next_at: AtomicU64,
}

const REPORT_EVERY: Micros = 1_000_000;

impl Counter {
    pub(super) fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// Counts one. If a report is due: how many it covers.
    pub(super) fn count(&self, now: Micros) -> Option<u64> {
        let total = self.total.fetch_add(1, Relaxed) + 1;
        let next_at = self.next_at.load(Relaxed);
        // A clock that stepped back must not silence events until it has caught up.
        if now < next_at && next_at - now <= REPORT_EVERY {
            return None;
        }
        let then = now.saturating_add(REPORT_EVERY);
        if self.next_at.compare_exchange(next_at, then, Relaxed, Relaxed).is_err() {
            return None;
        }
        // If a later report has overtaken this one, nothing is left to report.
        let unreported = total.saturating_sub(self.reported.fetch_max(total, Relaxed));
        (unreported > 0).then_some(unreported)
    }
}
