//! Stops calling a store that does not answer, so that an outage costs nothing per request. It
//! keeps the reason of the outage for logs.

use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use core::time::Duration;
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use crate::error::{Code, Error, Result};
use crate::time::{Micros, micros_of};

/// When the breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerConfig {
    /// Opens after this many outages in a row; 0 turns the breaker off.
    pub failures: u32,
    /// Stays open so long; then one call at a time tries whether the store is back.
    pub open_for: Duration,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_secs(1) }
    }
}

#[derive(Debug)]
pub(in crate::limiter) struct Breaker {
    threshold: u32,
    open_for: Micros,
    failures_in_a_row: AtomicU32,
    /// Until when no call passes; 0 while closed.
    open_until: AtomicU64,
    /// Whether a call is trying if the store is back.
    probing: AtomicBool,
    rejections: AtomicU64,
    /// Why the store did not answer the last time.
    why: Mutex<String>,
}

impl Breaker {
    pub(in crate::limiter) fn new(config: BreakerConfig) -> Self {
        Self {
            threshold: config.failures,
            open_for: micros_of(config.open_for),
            failures_in_a_row: AtomicU32::new(0),
            open_until: AtomicU64::new(0),
            probing: AtomicBool::new(false),
            rejections: AtomicU64::new(0),
            why: Mutex::default(),
        }
    }

    pub(super) fn rejections(&self) -> u64 {
        self.rejections.load(Relaxed)
    }

    /// When calls may pass again.
    pub(super) fn closed_until(&self, now: Micros) -> Micros {
        let until = self.open_until.load(Acquire);
        if self.is_open(until, now) { until } else { now.saturating_add(self.open_for) }
    }

    /// A clock that stepped back must not keep the breaker open for longer than it is configured
    /// to.
    fn is_open(&self, until: Micros, now: Micros) -> bool {
        now < until && until - now <= self.open_for
    }

    /// Permission for one call.
    pub(super) fn pass(&self, now: Micros) -> Result<Pass<'_>> {
        let open_until = self.open_until.load(Acquire);
        if open_until == 0 {
            return Ok(Pass { breaker: self, probe: false });
        }
        if !self.is_open(open_until, now) && !self.probing.swap(true, AcqRel) {
            return Ok(Pass { breaker: self, probe: true });
        }
        self.rejections.fetch_add(1, Relaxed);
        let message = "the store did not answer lately; not asked again yet";
        Err(Error::new(Code::StoreUnavailable, message).by_breaker())
    }

    /// The reason of an error: the one of the outage, if the breaker refused the call.
    pub(super) fn reason<'e>(&self, error: &'e Error) -> Cow<'e, str> {
        if !error.is_by_breaker() {
            return Cow::Borrowed(error.message());
        }
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        if why.is_empty() { Cow::Borrowed(error.message()) } else { Cow::Owned(why.clone()) }
    }

    fn remember(&self, error: &Error) {
        let mut why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        if *why != error.message() {
            why.clear();
            why.push_str(error.message());
        }
    }

    fn success(&self) {
        self.failures_in_a_row.store(0, Relaxed);
        self.open_until.store(0, Release);
    }

    fn failure(&self, probe: bool, now: Micros) {
        let failures = self.failures_in_a_row.fetch_add(1, Relaxed).saturating_add(1);
        if self.threshold > 0 && (probe || failures >= self.threshold) {
            self.open_until.store(now.saturating_add(self.open_for).max(1), Release);
        }
    }
}

/// Permission for one call. Dropped without a report, it leaves the breaker as it was.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    breaker: &'a Breaker,
    probe: bool,
}

impl Pass<'_> {
    /// The store answered.
    pub(super) fn answered(self) {
        self.breaker.success();
    }

    /// The store did not answer, as was known at `now`, for this reason.
    pub(super) fn failed(self, now: Micros, why: &Error) {
        self.breaker.remember(why);
        self.breaker.failure(self.probe, now);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.probe {
            self.breaker.probing.store(false, Release);
        }
    }
}
