//! How a counter is made to follow the wall clock: the arithmetic, without any clock.
//!
//! Between two corrections time is a straight line over the ticks of a counter. A correction
//! compares the line with the wall clock, measures how long a tick is, and gives the next line. A
//! line that is behind continues at the wall clock, at once. A line that is ahead continues where
//! it is and runs slower until the wall clock has caught up, because time never goes back within a
//! process.

use super::health::{ClockHealth, OFFSET_BOUND};
use crate::time::Micros;

/// The time between two corrections.
pub(super) const INTERVAL: Micros = 1_000_000;
/// An offset ahead is reduced by this part of itself per microsecond, but by no more than the next
/// bound: half of what is left in 7 seconds.
const SLEW_TIME: u128 = 10_000_000;
/// Offsets above this are slewed as this one is: time runs a tenth slower.
const SLEW_BOUND: Micros = 1_000_000;
/// A tick that differs by more than one part in this from the calibration of the counter was not
/// measured: the wall clock was set, or the counter stood still.
const RATE_TOLERANCE: u64 = 1_000;
/// Counters of two processors may differ by up to this; a counter that is further back was reset.
const COUNTER_SKEW: Micros = 1_000;

/// Time over ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// The time at which the counter stood at zero. May wrap around: only sums are used.
    pub(super) offset: u64,
    /// Microseconds per tick, times 2^64.
    pub(super) rate: u64,
}

impl Line {
    fn through(ticks: u64, at: Micros, rate: u64) -> Self {
        Self { offset: at.wrapping_sub(scaled(ticks, rate)), rate }
    }

    #[inline]
    pub(super) const fn at(self, ticks: u64) -> Micros {
        self.offset.wrapping_add(scaled(ticks, self.rate))
    }
}

/// Ticks as microseconds.
#[inline]
const fn scaled(ticks: u64, rate: u64) -> Micros {
    ((ticks as u128 * rate as u128) >> 64) as u64
}

/// A reading of both clocks at the same instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) ticks: u64,
    pub(super) wall: Micros,
}

/// The line in force, and what the corrections have learnt.
#[derive(Debug)]
pub(super) struct Discipline {
    line: Line,
    /// The length of a tick by the calibration of the counter, and as measured.
    calibrated: u64,
    measured: u64,
    last: Reading,
    health: ClockHealth,
}

/// The next line, until it is put in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct Correction {
    line: Line,
    /// The line that the next one may not fall below.
    floor: Line,
}

impl Discipline {
    /// A clock that starts at the wall clock, with a counter of this many microseconds per tick,
    /// times 2^64.
    pub(super) fn new(calibrated: u64, now: Reading) -> Self {
        Self {
            line: Line::through(now.ticks, now.wall, calibrated),
            calibrated,
            measured: calibrated,
            last: now,
            health: ClockHealth::default(),
        }
    }

    pub(super) const fn line(&self) -> Line {
        self.line
    }

    pub(super) const fn health(&self) -> ClockHealth {
        self.health
    }

    /// The counter at the last correction.
    pub(super) const fn corrected_at(&self) -> u64 {
        self.last.ticks
    }

    /// The number of ticks in a time.
    pub(super) fn ticks_in(&self, time: Micros) -> u64 {
        let ticks = (u128::from(time) << 64) / u128::from(self.calibrated.max(1));
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// Compares the line with the wall clock.
    pub(super) fn measure(&mut self, now: Reading) -> Correction {
        self.measure_rate(now);
        let floor = self.floor(now.ticks);
        let at = floor.at(now.ticks);
        let found = at.abs_diff(now.wall);
        let was_within = !self.health.is_out_of_bounds();
        self.health.corrections += u64::from(found > OFFSET_BOUND && was_within);
        self.health.largest = self.health.largest.max(found);
        self.health.ahead = at.saturating_sub(now.wall);
        self.last = now;
        let slower = u128::from(self.health.ahead.min(SLEW_BOUND)) * u128::from(self.measured);
        let slower = u64::try_from(slower / SLEW_TIME).unwrap_or(0);
        let line = Line::through(now.ticks, at.max(now.wall), self.measured - slower);
        Correction { line, floor }
    }

    /// Puts a correction in force at an instant from which on no reading follows the line before.
    ///
    /// The first microsecond of the next line is that of a reading at this very instant.
    pub(super) fn correct(&mut self, correction: Correction, ticks: u64) -> Line {
        let floor = correction.floor.at(ticks).wrapping_add(1);
        let at = correction.line.at(ticks).max(floor);
        self.line = Line::through(ticks, at, correction.line.rate);
        self.line
    }

    /// Whether a correction is due: the last one is an interval ago, or the counter was reset.
    pub(super) fn is_due(&self, ticks: u64) -> bool {
        ticks.saturating_sub(self.last.ticks) > self.ticks_in(INTERVAL) || self.was_reset(ticks)
    }

    fn was_reset(&self, ticks: u64) -> bool {
        self.last.ticks.saturating_sub(ticks) > self.ticks_in(COUNTER_SKEW)
    }

    /// The line so far. A counter that was reset, as after a suspend, continues where the line can
    /// have been at most.
    fn floor(&self, ticks: u64) -> Line {
        if !self.was_reset(ticks) {
            return self.line;
        }
        let most = self.line.at(self.last.ticks).wrapping_add(INTERVAL);
        Line::through(ticks, most, self.measured)
    }

    /// Learns the length of a tick from the time since the last correction, if that was long enough
    /// and nothing was set meanwhile.
    fn measure_rate(&mut self, now: Reading) {
        let ticks = now.ticks.saturating_sub(self.last.ticks);
        let passed = now.wall.saturating_sub(self.last.wall);
        if passed < INTERVAL / 2 || ticks == 0 {
            return;
        }
        let rate = (u128::from(passed) << 64) / u128::from(ticks);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        if rate.abs_diff(self.calibrated) <= self.calibrated / RATE_TOLERANCE {
            self.measured = rate;
        }
    }
}
