//! A clock that follows the wall clock by a counter, at the cost of reading the counter.
//!
//! A reading takes the line in force, and the counter. Once per second one reading corrects the
//! line first. The line is published as a sequence lock does it: a correction counts up before and
//! after it, and a reading that does not find both counts equal starts over. So no reading combines
//! two lines, and none that began after a correction uses the line before it: time never goes back
//! from one reading to the next, in whichever threads they are.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU64, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ClockHealth;
use super::discipline::{Discipline, INTERVAL, Line, Reading};
use crate::time::Micros;

/// How often both clocks are read for one correction; the reading that took the least time counts.
const READINGS: usize = 3;

/// A counter and a wall clock.
pub(super) trait TickSource {
    /// A counter that runs at an even pace.
    fn ticks(&self) -> u64;
    /// Microseconds since the epoch.
    fn wall(&self) -> Micros;
}

/// A clock over a source of time.
#[derive(Debug)]
pub(super) struct Following<S> {
    source: S,
    /// Corrections that have begun, and that have ended.
    begun: AtomicU64,
    ended: AtomicU64,
    offset: AtomicU64,
    rate: AtomicU64,
    corrected_at: AtomicU64,
    /// Ticks from one correction to the next.
    interval: u64,
    discipline: Mutex<Discipline>,
}

impl<S: TickSource> Following<S> {
    /// A clock that starts at the wall clock of its source, with this many microseconds per tick,
    /// times 2^64.
    pub(super) fn new(source: S, micros_per_tick: u64) -> Self {
        let now = read_both(&source);
        let discipline = Discipline::new(micros_per_tick, now);
        let Line { offset, rate } = discipline.line();
        Self {
            source,
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            offset: AtomicU64::new(offset),
            rate: AtomicU64::new(rate),
            corrected_at: AtomicU64::new(now.ticks),
            interval: discipline.ticks_in(INTERVAL),
            discipline: Mutex::new(discipline),
        }
    }

    #[inline]
    pub(super) fn now(&self) -> Micros {
        let (ticks, at) = self.read();
        match at {
            // A counter that went back is far beyond the interval.
            Some(at) if ticks.wrapping_sub(self.corrected_at.load(Relaxed)) <= self.interval => at,
            _ => self.corrected(),
        }
    }

    pub(super) fn health(&self) -> ClockHealth {
        self.lock().health()
    }

    /// A reading of the counter, and the time if no correction was under way.
    #[inline]
    fn read(&self) -> (u64, Option<Micros>) {
        let ended = self.ended.load(Acquire);
        let line = Line { offset: self.offset.load(Relaxed), rate: self.rate.load(Relaxed) };
        let ticks = self.source.ticks();
        fence(Acquire);
        (ticks, (self.begun.load(Relaxed) == ended).then(|| line.at(ticks)))
    }

    /// Corrects the line, unless another thread does, and reads it.
    #[cold]
    #[inline(never)]
    fn corrected(&self) -> Micros {
        if let Ok(mut discipline) = self.discipline.try_lock()
            && discipline.is_due(self.source.ticks())
        {
            self.correct(&mut discipline);
        }
        loop {
            // A correction takes a few nanoseconds between its two counts.
            if let (_, Some(at)) = self.read() {
                return at;
            }
            core::hint::spin_loop();
        }
    }

    fn correct(&self, discipline: &mut Discipline) {
        let correction = discipline.measure(read_both(&self.source));
        self.begun.fetch_add(1, Relaxed);
        // From here on every reading of the counter that uses the line before starts over.
        fence(SeqCst);
        let line = discipline.correct(correction, self.source.ticks());
        self.offset.store(line.offset, Relaxed);
        self.rate.store(line.rate, Relaxed);
        self.corrected_at.store(discipline.corrected_at(), Relaxed);
        self.ended.fetch_add(1, Release);
    }

    fn lock(&self) -> MutexGuard<'_, Discipline> {
        self.discipline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Both clocks at the same instant, as far as that can be told.
fn read_both(source: &impl TickSource) -> Reading {
    let one = || {
        let (before, wall, after) = (source.ticks(), source.wall(), source.ticks());
        let took = after.wrapping_sub(before);
        (took, Reading { ticks: before.wrapping_add(took / 2), wall })
    };
    let mut best = one();
    for _ in 1..READINGS {
        let next = one();
        best = if next.0 < best.0 { next } else { best };
    }
    best.1
}
